"""Query files: Python or SQL files that say what `gapless run` and `gapless cutover` run.

    talkers.py      query = flows.window(...).group_by("src").aggregate(...)
                    plans = [query, gl.Plan(query, ...)]        optional: replicas take them in turn

The file is imported under its own name, as `import talkers` would, so that its functions have names
that other processes can import: "talkers:rate". The job ships the file to them. Its folder is on
Python's path, as with `python talkers.py`; other files in the folder are not shipped.

    talkers.sql     SELECT ... FROM flows ...       its tables: CREATE TABLE, or the journals

Errors name the file and the line.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gapless.protocol.errors import GaplessError, Misuse, SqlError

if TYPE_CHECKING:
    from gapless.actors.plans import Plans
    from gapless.engine.plan import Plan
    from gapless.engine.query import Query

QUERY, PLANS = "query", "plans"
"""What a query file defines."""
SQL = ".sql"
"""How the name of a SQL file ends."""


@dataclass(frozen=True)
class QueryFile:
    """What one has defined."""

    path: Path
    query: Query | Plan
    plans: Plans

    @property
    def module(self) -> str:
        """Its name as a module."""
        return self.path.stem

    @property
    def code(self) -> Path | None:
        """The file that functions of the query may be in: SQL has none."""
        return None if self.path.suffix == SQL else self.path

    @property
    def needs_code(self) -> bool:
        """Whether a plan names a function of this file, so that running it needs the file."""
        from gapless.actors.plans import named_plans

        documents = [plan.to_document() for plan in named_plans(self.query, self.plans).values()]
        return any(text.startswith(f"{self.module}:") for text in _texts(documents))


def read(path: Path, journals: Mapping[str, str] | None = None) -> QueryFile:
    """Runs the file. Raises `Misuse`, with the line, where it does not define a query.

    `journals`: by their names, those that a SQL file may read without CREATE TABLE.
    """
    from gapless.engine.plan import Plan
    from gapless.engine.query import Query

    if path.suffix == SQL:
        return QueryFile(path.resolve(), _queried(path, journals or {}), None)
    module = _imported(path)
    query = getattr(module, QUERY, None)
    if query is None:
        there = [name for name, each in vars(module).items() if isinstance(each, Query | Plan)]
        defined = f"; it defines {', '.join(there)}" if there else ""
        raise Misuse(
            f"{path} defines no {QUERY!r}{defined}: assign the query that is to run to that name"
        )
    if not isinstance(query, Query | Plan):
        kind = type(query).__name__
        raise Misuse(f"{path}: {QUERY!r} is a {kind}: it has to be a query, or a plan of one")
    plans = getattr(module, PLANS, None)
    if plans is not None and not isinstance(plans, list | tuple | dict):
        kind = type(plans).__name__
        raise Misuse(f"{path}: {PLANS!r} is a {kind}: it has to be a list, or a mapping of names")
    return QueryFile(path.resolve(), query, plans)


def read_sql(path: Path) -> str:
    """The text of a SQL file."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise Misuse(f"{path}: a SQL file is text in UTF-8") from None
    except OSError as e:
        raise Misuse(f"{path}: it cannot be read: {e.strerror}") from None


def _queried(path: Path, journals: Mapping[str, str]) -> Query:
    """The query of a SQL file."""
    from gapless.io.sql_sources import source_of
    from gapless.sql_queries.script import Script

    script = Script(offered=dict.fromkeys(journals, lambda name: source_of(name, journals[name])))
    try:
        answers = script.run(read_sql(path))
    except SqlError as e:
        raise Misuse(f"{path}, {e}") from None
    if len(answers) != 1 or answers[0].is_explained:
        raise Misuse(
            f"{path}: it has {len(answers)} queries: write one SELECT, and CREATE VIEW for what "
            "it reads"
        )
    return answers[0].query


def _imported(path: Path) -> ModuleType:
    name = path.stem
    if not path.is_file():
        raise Misuse(f"{path}: there is no such file: name a python file that defines {QUERY!r}")
    if path.suffix != ".py" or not name.isidentifier():
        raise Misuse(
            f"{path}: it is imported as a module, so its name is letters, digits and underscores, "
            "and ends in .py: rename it"
        )
    if _is_taken(name, path.resolve()):
        raise Misuse(f"{path}: python has a module {name!r} already: rename the file")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise Misuse(f"{path}: python cannot import it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as e:
        where = e.filename or str(path)
        raise Misuse(f"{where}, line {e.lineno}: invalid Python: {e.msg}") from None
    except (Exception, SystemExit) as e:  # noqa: BLE001  # whatever a user's file may raise
        said = str(e) if isinstance(e, GaplessError) else f"{type(e).__name__}: {e}"
        raise Misuse(f"{path}, line {_line(e, path)}: {said}") from None
    return module


def _is_taken(name: str, path: Path) -> bool:
    """Whether `import name` would find another file, here or in a process of the job."""
    there = sys.modules.get(name)
    spec = importlib.util.find_spec(name) if there is None else there.__spec__
    if spec is None:
        return there is not None
    return spec.origin is None or Path(spec.origin).resolve() != path


def _line(error: BaseException, path: Path) -> int:
    """The innermost line of the file that led to the error."""
    here = str(path.resolve())
    frames = traceback.extract_tb(error.__traceback__)
    lines = [at.lineno or 0 for at in frames if at.filename == here]
    return lines[-1] if lines else 0


def _texts(document: Any) -> Iterator[str]:
    """All texts in a document."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        for each in document.values():
            yield from _texts(each)
    elif isinstance(document, list | tuple):
        for each in document:
            yield from _texts(each)
