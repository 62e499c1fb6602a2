"""The options of a launch, checked before anything runs: each error names the option that is wrong,
and says what to write in its place.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gapless.actors.code import check_reachable
from gapless.engine.documents import functions_of
from gapless.engine.judged import check_source
from gapless.engine.plan import Plan
from gapless.failover.job.directory import NAME
from gapless.failover.timing import Timing, changed, checked
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout, layout_of
from gapless.protocol.errors import JournalError, Misuse

Journals = str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]]
"""A path, or by source a path."""
SECONDS_MAX = 10**9
"""Some thirty years: more is none that anybody means."""


def path_of(what: str, given: Any) -> Path:
    """A path; raises `Misuse` for anything else."""
    path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise Misuse(f"{what}={given!r:.100}: a path, as a text or a pathlib.Path")
    return Path(path)


def milliseconds(what: str, seconds: Any) -> int:
    """A number of seconds; raises `Misuse` for anything else."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not math.isfinite(seconds) or not 0 < seconds <= SECONDS_MAX:
        raise Misuse(f"{what} {seconds!r:.100}: a number of seconds above 0, to {SECONDS_MAX}")
    return max(1, round(float(seconds) * 1000))


def journals_of(plan: Plan, journal: Journals) -> tuple[dict[str, str], dict[str, Layout]]:
    """By source, the path of its journal and what that holds. Raises where they do not fit."""
    wanted = plan.query.sources
    if isinstance(journal, Mapping):
        given = {name: path_of(f"journal of {name!r}", path) for name, path in journal.items()}
    elif len(wanted) == 1:
        given = dict.fromkeys(wanted, path_of("journal", journal))
    else:
        raise Misuse(
            f"journal: the query reads {', '.join(wanted)}: give a mapping from them to paths"
        )
    if missing := sorted(wanted.keys() - given.keys()):
        raise Misuse(f"journal: none is given for source {missing[0]!r}")
    if unknown := sorted(given.keys() - wanted.keys()):
        raise Misuse(f"journal: {unknown[0]!r} is not a source of the query: {', '.join(wanted)}")
    paths, layouts = {}, {}
    for name, path in given.items():
        where = path.resolve()
        layout = layout_of(LocalDisk(where)) if where.is_dir() else None
        if layout is None:
            raise JournalError(
                f"source {name}: {path} holds no journal; `gapless prepare` makes one from files, "
                "`gapless ingest` from a stream"
            )
        check_source(wanted[name], layout, f"journal {path}")
        paths[name], layouts[name] = str(where), layout
    return paths, layouts


def check_code(plans: Iterable[Plan], code: Any) -> None:
    """Raises `Misuse` where another process could not import a function of a user's, or where the
    file that is to go with the job is not there.
    """
    for plan in plans:
        for name, function in functions_of(plan.query).items():
            check_reachable(name, function)
    if code is not None and not path_of("code", code).exists():
        raise Misuse(f"code {code}: there is no such file or folder")


def timing_of(timing: Any, default: Timing) -> Timing:
    """Every wait: all of them, or changes of the default by name. Raises `Misuse`."""
    if timing is None:
        return default
    if isinstance(timing, Timing):
        return checked(timing)
    if not isinstance(timing, Mapping):
        raise Misuse(f"timing={timing!r:.100}: waits by name, as {{'hang_ms': 3000}}")
    if "checkpoint_ms" in timing:
        raise Misuse("timing: checkpoint_ms is an option of its own: checkpoint_s")
    return changed(default, timing)


def check_environment(runtime_env: Any) -> None:
    """Raises `Misuse` unless it is what Ray takes."""
    if runtime_env is not None and not isinstance(runtime_env, Mapping):
        raise Misuse(
            f"runtime_env={runtime_env!r:.100}: a mapping, as Ray has it: {{'pip': ['scipy']}}"
        )


@contextmanager
def new_directory(job_dir: Path) -> Iterator[None]:
    """The directory of a job that is to be made is there, and can be written; where that comes to
    nothing, one that was made here and is empty goes again. Raises `Misuse`.
    """
    try:
        is_there = job_dir.exists()
        if (job_dir / NAME).exists():
            raise Misuse(
                f"{job_dir}: a job is here already: resume it, or choose another directory"
            )
        job_dir.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise Misuse(f"the job's directory {job_dir} cannot be written: {e}") from None
    try:
        yield
    except BaseException:
        if not is_there and not any(job_dir.iterdir()):
            job_dir.rmdir()
        raise
