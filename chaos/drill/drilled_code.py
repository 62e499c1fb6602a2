"""Which code has to go with a query, so that other processes find the functions that it calls.

    scoring:rate          scoring.py beside the test      that file
    app.scoring:rate      app/, not installed             that folder
    numpy:abs             installed, as on any machine    nothing
    __main__:rate         the program itself              refused: nobody can import it
    tests.t:make.<locals>.rate                            refused: nobody can reach it

A process of the job imports a function by its module and its name (actors/code.py). What
cannot be found that way is refused here, before a cluster is started for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gapless.actors.code import check_reachable
from gapless.protocol.errors import Misuse

INSTALLED = frozenset({"site-packages", "dist-packages"})
"""What lies below such a folder is found by every process of this machine."""


def code_of(functions: Mapping[str, Callable[..., Any]], code: str | Path | None) -> Path | None:
    """The file or folder that defines functions, by the names that documents have for them; None
    where all of them are installed. `code`: what the user says that it is.

    Raises `Misuse` where another process could not import one.
    """
    for name, function in functions.items():
        check_reachable(name, function)
    if code is not None:
        path = Path(code).resolve()
        if not path.exists():
            raise Misuse(f"code {code}: there is no such file or folder")
        return path
    tops = {name.partition(":")[0].partition(".")[0]: name for name in functions}
    homes = {home: name for top, name in tops.items() if (home := _home(top, name)) is not None}
    if len(homes) > 1:
        raise Misuse(
            f"the query's functions are in several places ({', '.join(map(str, homes))}), and one "
            "goes with a job: put them into one module or one package, or install some of them"
        )
    return next(iter(homes), None)


def _home(top: str, name: str) -> Path | None:
    """Where a package, or a module, lies; None where it is installed."""
    module = sys.modules.get(top)
    if top in sys.stdlib_module_names:
        return None
    folders = list(getattr(module, "__path__", ()))
    file = getattr(module, "__file__", None)
    home = Path(folders[0]) if folders else None if file is None else Path(file)
    if home is None:
        raise Misuse(f"{name}: nothing says where {top} lies; give code= the file that defines it")
    return None if INSTALLED & set(home.parts) else home.resolve()
