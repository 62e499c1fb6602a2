"""Functions of users, found again in another process by the name that a plan's document has.

    score = gl.function(rate, "len", returns="float64")        in scoring.py
    DIR/code/HASH/scoring.py                                   with the job; its record names it
    "scoring:rate" in the plan   -->   import scoring, from there or from where Python looks

A job's directory carries the file that its maker named, so that a root on any machine that sees the
directory can resume it. What that file imports has to be installed there, or shipped with
`runtime_env`.

It lies under the hash of its content, and is looked at before anything of it runs: checkpoints were
made by this code, and other code on them would give answers that neither would. Files that come
with a cutover lie in DIR/code itself, each under a name of its own.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from gapless.protocol.errors import JobError, Misuse

FOLDER = "code"
_MAIN = "__main__"
_LAMBDA, _LOCAL = "<lambda>", "<locals>"
"""In the names of functions that no import finds."""
CODE_BYTES_MAX = 64 << 20
"""Of what is kept with a job: a larger file is not a query, but a library or data."""
_HASH = re.compile("[0-9a-f]{32}")
_CACHED = "__pycache__"


class Functions(Mapping[str, Callable[..., Any]]):
    """By "module:qualname", what can be imported. Iterating finds nothing: it knows no list."""

    def __init__(self, job_dir: Path, code: str | None = None) -> None:
        """`code`: as the job's record names it."""
        self._dir = job_dir
        self._code = code
        for folder in reversed([str(folder) for folder in folders(job_dir, code)]):
            if folder not in sys.path:
                sys.path.insert(0, folder)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if self._code is not None:
            check(self._dir, self._code)
            self._code = None  # once: what is imported stays
        module, _, path = name.partition(":")
        try:
            found = reduce(getattr, path.split("."), importlib.import_module(module))
        except Exception as e:
            raise JobError(
                f"{self._dir}: the query's function {name} cannot be imported: "
                f"{type(e).__name__}: {e}; launch the job with code= the file that defines it, or "
                "ship it with runtime_env="
            ) from e
        if not callable(found):
            raise JobError(f"{self._dir}: {name} is a {type(found).__name__}, and no function")
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and ":" in name

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        """It is no empty mapping, though it lists nothing: `functions or {}` has to be this."""
        return True


def check_reachable(name: str, function: Callable[..., Any]) -> None:
    """Raises `Misuse` where another process could not find a function by the name that a plan's
    document has for it.
    """
    module, _, path = name.partition(":")
    wanted = "write it with def at the top of a module, and build the query of that"
    if _LAMBDA in path:
        raise Misuse(f"{name}: a lambda has no name by which a job's processes import it: {wanted}")
    if _LOCAL in path:
        raise Misuse(f"{name} is made inside another function, where no import finds it: {wanted}")
    if module == _MAIN:
        raise Misuse(
            f"{name} is defined in the program that runs, so no process of a job can import it: "
            f"{wanted}"
        )
    try:
        found: Any = reduce(getattr, path.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        raise Misuse(f"{name} cannot be reached by that name: {wanted}") from None
    if found != function:
        raise Misuse(f"{name} is something else than the query calls: {wanted}")


# -- the files --------------------------------------------------------------------------------


def named(code: str | os.PathLike[str]) -> str:
    """What a job's record calls a file, or folder, by its content. Raises `Misuse`."""
    path = Path(code).resolve()
    if not path.exists():
        raise Misuse(f"code {code}: there is no such file or folder")
    return f"{_digest(path)}/{path.name}"


def keep(code: str | os.PathLike[str], job_dir: Path, name: str) -> None:
    """Puts it into a job's directory under its name. What is there stays as it is: it has the same
    content. Raises `Misuse` where it is not that any more, `OSError`.
    """
    path, there = Path(code).resolve(), job_dir / FOLDER / name
    if there.exists():
        check(job_dir, name)
        return
    draft = there.parent.with_name(f".{there.parent.name}-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)  # of one that died here before
    draft.mkdir(parents=True)
    try:
        if path.is_dir():
            shutil.copytree(path, draft / path.name, ignore=shutil.ignore_patterns(_CACHED))
        else:
            shutil.copy2(path, draft / path.name)
        if f"{_digest(draft / path.name)}/{path.name}" != name:
            raise Misuse(f"code {code}: it has changed meanwhile: launch the job again")
        there.parent.mkdir(exist_ok=True)  # one content may lie there by several names
        if not there.exists():
            (draft / path.name).rename(there)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check(job_dir: Path, code: str) -> None:
    """Raises `JobError` where a job's code is not the one that it was launched with."""
    if not _HASH.fullmatch(code.partition("/")[0]):
        return  # of an older release: nobody has noted what it was
    path = job_dir / FOLDER / code
    if not path.exists() or f"{_digest(path)}/{path.name}" != code:
        raise JobError(
            f"{path}: the job's code is missing, or another one than the job was launched with: "
            "take it from a copy of the job's directory; other code is another job, or a cutover"
        )


def folders(job_dir: Path, code: str | None) -> list[Path]:
    """Where a job's processes look for modules first."""
    shared = job_dir / FOLDER
    return [shared] if code is None else list(dict.fromkeys([(shared / code).parent, shared]))


def _digest(path: Path) -> str:
    """Of a file's bytes; of a folder's files, with their names."""
    sum_of, size = hashlib.sha256(), 0
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in files:
        name = file.relative_to(path)
        if _CACHED in name.parts or not file.is_file():
            continue
        size += file.stat().st_size
        if size > CODE_BYTES_MAX:
            raise Misuse(
                f"code {path}: it has more than {CODE_BYTES_MAX >> 20} MiB: name the file that "
                "defines the functions, and ship the rest with runtime_env="
            )
        data = file.read_bytes()
        sum_of.update(f"{name.as_posix()}\0{len(data)}\0".encode())
        sum_of.update(data)
    return sum_of.hexdigest()[:32]
