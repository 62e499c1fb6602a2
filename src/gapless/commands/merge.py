"""`gapless merge`: merges recorded streams with LMerge."""

from __future__ import annotations

import re
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.terminal import AsJson, ExitCode, print_json, progress_bar

if TYPE_CHECKING:
    from gapless.commands.recorded import Recording
    from gapless.merge.lmerge import LMerge
    from gapless.merge.play import Heard, Player
    from gapless.merge.policy import Policy
    from gapless.merge.script import Script
    from gapless.protocol.frame import Frame
    from gapless.protocol.schema import StreamSchema

STDIN = Path("-")
PROGRESS_STEPS = 100
"""A bar moves in percents: one step for each batch would draw more than it merges."""


class CaseChoice(StrEnum):
    """Values of `--case`."""

    AUTO = "auto"
    R0 = "r0"
    R1 = "r1"
    R2 = "r2"
    R3 = "r3"
    R4 = "r4"


class Order(StrEnum):
    """Values of `--order`: which file's frame comes next."""

    ROUND_ROBIN = "round-robin"
    BY_VS = "by-vs"


def merge(
    sources: Annotated[
        list[Path], typer.Argument(metavar="SCRIPT...", help="Scripts; - is standard input.")
    ],
    case: Annotated[
        CaseChoice,
        typer.Option(help="The case of LMerge; auto: r3, then r4 if an input has a key twice."),
    ] = CaseChoice.AUTO,
    policy: Annotated[
        str,
        typer.Option(
            metavar="RULES",
            help=(
                "What is output when: "
                "insert=first|leading|highest_insert|most_unfrozen|half_frozen|fully_frozen|quorum(K),"
                " adjust=at_stable|at_once|leading, stable=maximum|lag(D); separate several "
                "by commas."
            ),
        ),
    ] = "",
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help=(
                'Payload columns, such as "src:string,len:int32". Default: "p:string", with '
                "--files the columns of the first file."
            ),
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help=("After every line, check that the output can still follow its inputs.")
        ),
    ] = False,
    files: Annotated[
        bool, typer.Option("--files", help="The arguments are recorded streams, one input each.")
    ] = False,
    order: Annotated[
        Order, typer.Option(help="With --files: which input's frame comes next.")
    ] = Order.ROUND_ROBIN,
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            metavar="FILE",
            help="With --files: write the output to an Arrow IPC stream instead of as text.",
        ),
    ] = None,
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
    if not files and (out is not None or order is not Order.ROUND_ROBIN):
        raise typer.BadParameter("--out and --order go with --files")
    rules = parse_policy(policy)
    columns = None if schema is None else parse_schema(schema)
    session = _Session(case.value, rules, check, as_json)
    if files:
        problem = session.merge_files(sources, columns, order, out)
    else:
        problem = session.merge_scripts(sources, columns)
    raise typer.Exit(ExitCode.PROBLEM if problem else ExitCode.DONE)


# -- options --------------------------------------------------------------------------------------

_RULE = re.compile(r"\s*(insert|adjust|stable)\s*=\s*([a-z_]+)\s*(?:\(\s*([0-9]{1,18})\s*\))?\s*")


def parse_policy(text: str) -> Policy:
    """The policy written as `insert=quorum(2),adjust=at_once,stable=lag(5)`; parts are optional."""
    from gapless.merge.policy import Policy, lag, quorum
    from gapless.protocol.errors import Misuse

    chosen: dict[str, Any] = {}
    for part in text.split(",") if text.strip() else ():
        rule = _RULE.fullmatch(part)
        if rule is None:
            raise typer.BadParameter(
                f"--policy: expected insert=, adjust= or stable= and a rule, found {part.strip()!r}"
            )
        what, name, number = rule.groups()
        if what in chosen:
            raise typer.BadParameter(f"--policy: {what} is there twice")
        takes_number = {("insert", "quorum"): quorum, ("stable", "lag"): lag}.get((what, name))
        if (takes_number is None) != (number is None):
            form = f"{name} takes no number" if takes_number is None else f"expected {name}(NUMBER)"
            raise typer.BadParameter(f"--policy: {form}, found {part.strip()!r}")
        try:
            chosen[what] = name if takes_number is None else takes_number(int(number))
        except Misuse as e:
            raise typer.BadParameter(f"--policy: {e}") from None
    try:
        return Policy(**chosen)
    except Misuse as e:
        raise typer.BadParameter(f"--policy: {e}") from None


_NO_WIDTH = ("int", "integer", "long", "bigint")
"""Common names of integer types that Arrow does not have."""


def parse_schema(text: str) -> StreamSchema:
    """The schema written as `src:string,len:int32`."""
    from gapless.protocol.errors import SchemaError
    from gapless.protocol.schema import StreamSchema

    columns: dict[str, Any] = {}
    for part in text.split(","):
        name, colon, kind = (piece.strip() for piece in part.partition(":"))
        if not (name and colon and kind):
            raise typer.BadParameter(f"--schema: expected NAME:TYPE, found {part.strip()!r}")
        if name in columns:
            raise typer.BadParameter(f"--schema: column {name!r} is there twice")
        columns[name] = kind
    try:
        return StreamSchema(columns)
    except SchemaError as e:
        wide = any(kind in _NO_WIDTH for kind in columns.values())
        hint = "; write the size of an integer: int32 or int64" if wide else ""
        raise typer.BadParameter(f"--schema: {e}{hint}") from None


# -- merging --------------------------------------------------------------------------------------


class _Session:
    """One run of the command: prints as it goes, or gathers one document."""

    def __init__(self, case: Any, policy: Policy, check: bool, as_json: bool) -> None:
        self._case = case
        self._policy = policy
        self._check = check
        self._as_json = as_json
        self._problem = False

    def _player(self, schema: StreamSchema) -> Player:
        from gapless.merge.play import Player

        return Player(schema, self._case, self._policy, check=self._check)

    # -- scripts ------------------------------------------------------------------------------

    def merge_scripts(self, sources: list[Path], schema: StreamSchema | None) -> bool:
        """Parses all scripts, then plays them; returns whether a problem was found."""
        from gapless.merge.script import SEPARATOR, parse_scripts
        from gapless.protocol.text import DEFAULT_SCHEMA

        schema = schema or DEFAULT_SCHEMA
        scripts = [s for path in sources for s in parse_scripts(_read(path), schema, str(path))]
        documents = []
        for i, script in enumerate(scripts):
            if i and not self._as_json:
                typer.echo(SEPARATOR)
            document = self._play(script, schema)
            documents.append(document)
            if document["break"] is not None:
                break
        if self._as_json:
            print_json({"problem": self._problem, "scripts": documents})
        return self._problem

    def _play(self, script: Script, schema: StreamSchema) -> dict[str, Any]:
        player = self._player(schema)
        document: dict[str, Any] = {
            "source": script.source,
            "lines": [],
            "detached": [],
            "break": None,
        }
        for step in script.steps:
            heard = player.step(step)
            line = _text(heard.out)
            if line:
                document["lines"].append({"line": step.line, "out": line})
                self._say(line)
            self._note(f"{script.source}: line {step.line}", step.line, step.name, heard, document)
            if heard.breaches:
                break
        self._conclude(f"{script.source}: ", player, document)
        return document

    # -- files --------------------------------------------------------------------------------

    def merge_files(
        self,
        paths: list[Path],
        schema: StreamSchema | None,
        order: Order,
        out: Path | None,
    ) -> bool:
        """Merges recordings; returns whether a problem was found."""
        from contextlib import ExitStack

        from gapless.commands.recorded import Recorder, Recording, interleave
        from gapless.merge.script import Attach

        recordings: list[Recording] = []
        for path in paths:
            recordings.append(Recording(path, schema))
            schema = recordings[0].schema
        if out is not None:
            _refuse_overwriting(out, paths)
        assert schema is not None  # noqa: S101 - there is one recording at least
        player = self._player(schema)
        names = [
            f"{path} ({i})" if paths.count(path) > 1 else str(path) for i, path in enumerate(paths)
        ]
        for name in names:
            player.step(Attach(0, name))
        document: dict[str, Any] = {"lines": [], "detached": [], "break": None}
        elements, began = 0, time.monotonic()
        with ExitStack() as stack:
            advance = stack.enter_context(progress_bar("merging", PROGRESS_STEPS))
            frames = interleave(recordings, order is Order.BY_VS, advance, PROGRESS_STEPS)
            recorder = None if out is None else stack.enter_context(Recorder(out, schema))
            for number, (i, frame) in enumerate(frames):
                heard = player.say(names[i], (frame,))
                elements += len(frame) + (frame.stable is not None)
                for given in heard.out:
                    if recorder is not None:
                        recorder.write(given)
                    else:
                        self._keep(number, given, document)
                self._note(f"frame {number}, of {names[i]}", number, names[i], heard, document)
                if heard.breaches:
                    break
        document |= {"elements": elements, "seconds": round(time.monotonic() - began, 3)}
        self._conclude("", player, document)
        self._finish_files(recordings, document, out)
        return self._problem

    def _keep(self, number: int, given: Frame, document: dict[str, Any]) -> None:
        line = _text((given,))
        if self._as_json:
            document["lines"].append({"frame": number, "out": line})
        self._say(line)

    def _finish_files(
        self, recordings: list[Recording], document: dict[str, Any], out: Path | None
    ) -> None:
        for recording in recordings:
            if document["break"] is None and recording.bytes_read < recording.bytes_total:
                self._problem = True
                _warn(f"{recording.path}: the record at byte {recording.bytes_read} is torn")
        if self._as_json:
            print_json({"problem": self._problem} | document)
        elif out is not None:
            output = document["output"]
            typer.echo(
                f"{document['elements']} elements of {len(recordings)} inputs in "
                f"{document['seconds']:.1f} s, case {document['case']}: {output['inserts']} "
                f"inserts, {output['adjusts']} adjusts, {output['stables']} stables"
            )

    # -- saying -------------------------------------------------------------------------------

    def _say(self, line: str) -> None:
        if not self._as_json:
            sys.stdout.write(line + "\n")

    def _note(
        self, place: str, number: int, name: str, heard: Heard, document: dict[str, Any]
    ) -> None:
        """Prints what went wrong at a place, and adds it to the document."""
        from gapless.merge.compatible import RULES_EXPLAINED

        if heard.skipped:
            _warn(f"{place}: {name} is detached: skipped")
        if heard.detached is not None:
            self._problem = True
            _warn(f"{place}: {name} is detached: {heard.detached}")
            document["detached"].append(
                {"at": number, "input": name, "reason": str(heard.detached)}
            )
        if heard.breaches:
            self._problem = True
            document["break"] = {
                "at": number,
                "rules": [{"rule": b.rule, "why": b.why} for b in heard.breaches],
            }
            for breach in heard.breaches:
                _warn(f"{place}: {breach}")
            _warn(RULES_EXPLAINED)

    def _conclude(self, place: str, player: Player, document: dict[str, Any]) -> None:
        """What there is to tell once all is said, or at the break."""
        from gapless.protocol.elements import format_time

        merge, samples = player.merge, player.divergences()
        document |= _state(merge) | {"divergence_samples": samples}
        count = merge.divergences.count
        if count:
            self._problem = True
            for sample in samples:
                _warn(f"{place}divergence: {sample}")
            shown = "" if count == len(samples) else f", the first {len(samples)} are shown"
            _warn(f"{place}{count} divergence{'s' * (count > 1)}{shown}")
        document["waiting_for"] = None if document["break"] else player.waiting_for()
        if document["waiting_for"] is not None:
            _warn(
                f"{place}the output is stable to {format_time(merge.stable)}; "
                f"it waits for {document['waiting_for']}"
            )


def _refuse_overwriting(out: Path, paths: list[Path]) -> None:
    """Inputs are memory-mapped while the output is written: it must not be one of them."""
    from gapless.protocol.errors import Misuse

    for path in paths:
        if out.exists() and out.samefile(path):
            raise Misuse(f"{out}: is an input, {path}; write the output to another file")


def _warn(text: str) -> None:
    typer.echo(f"gapless: {text}", err=True)


def _read(path: Path) -> str:
    from gapless.protocol.errors import Misuse
    from gapless.protocol.text import TEXT_CHARS_MAX

    try:
        if path == STDIN:
            return sys.stdin.read(TEXT_CHARS_MAX + 1)
        with path.open(encoding="utf-8", newline="\n") as file:
            return file.read(TEXT_CHARS_MAX + 1)  # one more than is parsed: too long is said so
    except OSError as e:
        raise Misuse(f"{path}: cannot be read: {e.strerror}") from None
    except UnicodeDecodeError as e:
        why = f"is no UTF-8 text: {e.reason} at byte {e.start}"
        raise Misuse(f"{path}: {why}; a recording? add --files") from None


def _text(frames: tuple[Frame, ...]) -> str:
    from gapless.protocol import text

    return text.format(e for frame in frames for e in frame.elements())


def _state(merge: LMerge) -> dict[str, Any]:
    """A merger's statistics at the end."""
    stats = merge.stats
    return {
        "case": merge.case,
        "steps": [{"before": s.before, "after": s.after, "why": s.why} for s in merge.steps],
        "divergences": merge.divergences.count,
        "output": {
            "inserts": stats.inserts,
            "adjusts": stats.adjusts,
            "stables": stats.stables,
            "live_keys": stats.live_keys,
        },
    }
