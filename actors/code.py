"""Functions of users, found again in another process by the name that a plan's document has.

    score = gl.function(rate, "len", returns="float64")        in scoring.py
    "scoring:rate" in the plan   -->   import scoring, from DIR/code or from where Python looks

A job's directory carries the file that its maker named, so that a root on any machine that sees the
directory can resume it. What that file imports has to be installed there, or shipped with
`runtime_env`.
"""

from __future__ import annotations

import importlib
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


class Functions(Mapping[str, Callable[..., Any]]):
    """By "module:qualname", what can be imported. Iterating finds nothing: it knows no list."""

    def __init__(self, job_dir: Path) -> None:
        self._dir = job_dir
        folder = str(job_dir / FOLDER)
        if folder not in sys.path:
            sys.path.insert(0, folder)

    def __getitem__(self, name: str) -> Callable[..., Any]:
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
