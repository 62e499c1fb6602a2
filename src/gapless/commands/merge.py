"""`gapless merge`: merges recorded streams with LMerge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gapless.commands.merge_options import MergeOptions, RecordingOptions, parse_policy
from gapless.commands.merge_session import MergeSession
from gapless.commands.option_groups import grouped
from gapless.commands.options import parse_schema
from gapless.commands.terminal import AsJson, ExitCode


@grouped
def merge(
    *,
    sources: Annotated[
        list[Path], typer.Argument(metavar="SCRIPT...", help="Scripts; - is standard input.")
    ],
    options: MergeOptions,
    recordings: RecordingOptions,
    as_json: AsJson = False,
) -> None:
    """Merge recorded streams, from scripts or files.

    A script has lines such as "attach a", "attach c join 120", "a: ins(A,6,20) adj(A,6,20,30)
    stable(11)", "detach a", and # comments; a line "---" starts the next script.

    \b
    ins(PAYLOAD,VS,VE)      an event from VS up to VE, which may be inf: its end is open
    adj(PAYLOAD,VS,WAS,VE)  the event from VS ends at VE, not at WAS; VE = VS: there is none
    stable(T)               nothing before T will change any more; stable(inf) ends the stream

    A payload of several columns stands in parentheses: ins((A,1),6,20). The output is printed in
    the same notation, a line for each line of the script that caused any, and --- between scripts.

    With --files the arguments are recordings: frames in envelopes, numbered from 0, or Arrow IPC
    files or streams whose batches have the columns _vs, _ve, _was (int64, not null; _was is
    the smallest int64 in an insert) and then the payload, and the stable that follows a batch, if
    one does, in its custom metadata gapless.stable (an integer, or inf).

    Exits with 1 when --check finds a break (at the first one), when an input is detached for bad
    content (the others go on), or when inputs diverge: they promised different versions of an
    event, and each divergence is told on stderr. Exits with 2 when it could not run.
    """  # noqa: D301  # the mark \b keeps the lines below it as they are
    recordings.check()
    policy = parse_policy(options.policy)
    columns = None if options.schema is None else parse_schema(options.schema)
    session = MergeSession(options.case.value, policy, options.check, as_json)
    if recordings.files:
        problem = session.merge_files(sources, columns, recordings.order, recordings.out)
    else:
        problem = session.merge_scripts(sources, columns)
    raise typer.Exit(ExitCode.PROBLEM if problem else ExitCode.DONE)
