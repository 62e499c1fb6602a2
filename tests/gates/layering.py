"""Who may import whom, and which folders are pure: the rules, and what finds a breach of them.

`STANDS_ON` is the list of docs/architecture.md. A module may import its own folder and what that
stands on, transitively; the front door (`gapless` itself) may import all. Imports inside functions
and under `if TYPE_CHECKING` count: what a folder stands on does not depend on when it is asked.

A pure folder is one that the simulator runs as it is in production, thousands of times from a
seed. So it names nothing that acts on the world or asks it: no Ray, Spark or gRPC, no clock, no
waiting, no threads, no files, and no randomness without a seed. Time comes in as `now`, everything
else leaves as an effect. The journal is as pure except for `disk.py`, which alone touches the disk.

The check reads the source and runs none of it. It sees names that a module imports and whatever is
reached through them (`import datetime as d; d.datetime.now()`), not what hides behind `getattr`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PACKAGE = "gapless"

STANDS_ON: Mapping[str, tuple[str, ...]] = {
    "protocol": (),
    "kernels": (),
    "journal": ("protocol",),
    "merge": ("protocol", "kernels"),
    "operators": ("protocol", "kernels"),
    "queues": ("protocol", "kernels"),
    "engine": ("operators", "queues", "merge"),
    "sql_queries": ("engine",),
    "spark_sources": ("journal",),
    "failover": ("engine", "merge", "journal"),
    "actors": ("failover",),
    "sidecar": ("failover",),
    "chaos": ("actors", "sidecar", "spark_sources", "sql_queries"),
    "bench": ("chaos",),
}

PURE = frozenset(
    {"protocol", "merge", "operators", "queues", "engine", "sql_queries", "failover", "journal"}
)
TOUCHES_THE_DISK = "journal/disk.py"
PARSES_CSV = "protocol/lines/csv_lines.py"
"""Arrow's CSV reader takes files as well as bytes in memory; here it is given bytes."""

PROGRAMS = frozenset({"bench/peers/run_gapless.py"})
"""Users' programs that lie in a folder: each runs in a process of its own, and is there to measure
what a user gets. They import the front door and nothing behind it."""

SEEDED = PURE | {"kernels", "chaos"}
"""Folders that draw random numbers only from a seed. Chaos acts on the world, but must replay."""

WORLD: Mapping[str, str] = {
    "ray": "Ray",
    "pyspark": "Spark",
    "grpc": "gRPC",
    "time": "the clock",
    "sched": "the clock",
    "datetime.datetime.now": "the clock",
    "datetime.datetime.utcnow": "the clock",
    "datetime.datetime.today": "the clock",
    "datetime.date.today": "the clock",
    "asyncio": "waiting",
    "select": "waiting",
    "selectors": "waiting",
    "signal": "waiting",
    "queue": "threads",
    "threading": "threads",
    "concurrent": "threads",
    "multiprocessing": "processes",
    "subprocess": "processes",
    "psutil": "processes",
    "socket": "the network",
    "ssl": "the network",
    "http": "the network",
    "urllib.request": "the network",
    "pyarrow.flight": "the network",
    "os": "the operating system",
    "ctypes": "the operating system",
    "fcntl": "the operating system",
    "builtins.open": "files",
    "io.open": "files",
    "glob": "files",
    "pathlib.Path": "files",
    "shutil": "files",
    "tempfile": "files",
    "numpy.load": "files",
    "numpy.memmap": "files",
    "numpy.save": "files",
    "pyarrow.OSFile": "files",
    "pyarrow.memory_map": "files",
    "pyarrow.csv": "files",
    "pyarrow.dataset": "files",
    "pyarrow.fs": "files",
    "pyarrow.parquet": "files",
    "secrets": "randomness without a seed",
    "uuid.uuid1": "randomness without a seed",
    "uuid.uuid4": "randomness without a seed",
}
"""What a pure folder does not name, with all below it, and what that would give it."""

GENERATORS = frozenset({"random.Random", "numpy.random.default_rng", "numpy.random.SeedSequence"})
"""Sources of random numbers that take a seed; without an argument they take none."""
GENERATOR_TYPES = frozenset({"numpy.random.Generator", "numpy.random.BitGenerator"})


@cache
def below(folder: str) -> frozenset[str]:
    """The folders that `folder` stands on, transitively."""
    return frozenset(f for direct in STANDS_ON[folder] for f in {direct, *below(direct)})


@dataclass
class Names:
    """The outside names that one module uses, each with the lines where it does."""

    imported: list[tuple[int, str]] = field(default_factory=list)
    """Dotted names that it imports, `from a import b` as a.b."""
    used: list[tuple[int, str]] = field(default_factory=list)
    """Dotted names reached through those."""
    called_bare: list[tuple[int, str]] = field(default_factory=list)
    """Those of `used` that it calls without arguments."""
    relative: list[int] = field(default_factory=list)
    """Lines with relative imports."""


def names_in(source: str) -> Names:
    """All that `Names` says about one module's source."""
    nodes = list(ast.walk(ast.parse(source)))
    names = Names()
    alias = {"open": "builtins.open", "__import__": "__import__"}
    for node in nodes:
        if isinstance(node, ast.Import):
            for a in node.names:
                names.imported.append((node.lineno, a.name))
                top = a.name.partition(".")[0]
                alias[a.asname or top] = a.name if a.asname else top
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                names.relative.append(node.lineno)
            for a in node.names:
                names.imported.append((node.lineno, f"{node.module}.{a.name}"))
                alias[a.asname or a.name] = f"{node.module}.{a.name}"
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Name):
            dotted = _dotted(node, alias)
            if dotted:
                names.used.append((node.lineno, dotted))
        elif isinstance(node, ast.Call):
            _note_call(names, node, _dotted(node.func, alias))
    return names


def _note_call(names: Names, call: ast.Call, function: str | None) -> None:
    if function and not call.args and not call.keywords:
        names.called_bare.append((call.lineno, function))
    if function in ("importlib.import_module", "__import__"):
        for a in call.args:
            if isinstance(a, ast.Constant) and isinstance(a.value, str):
                names.imported.append((call.lineno, a.value))


def _dotted(node: ast.expr, alias: Mapping[str, str]) -> str | None:
    """The full name behind an expression like `pd.Timestamp.now`; None where it is not one."""
    if isinstance(node, ast.Name):
        return alias.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, alias)
        return owner and f"{owner}.{node.attr}"
    return None


# -- the two rules --------------------------------------------------------------------------------


def breaches(path: str, source: str) -> list[str]:
    """What is wrong with the module at `path` (as in "merge/r3.py"), one sentence each."""
    names = names_in(source)
    folder = path.partition("/")[0]
    found = list(_program_breaches(names) if path in PROGRAMS else _layer_breaches(folder, names))
    if folder in PURE and path != TOUCHES_THE_DISK:
        found += _world_breaches(folder, names, "pyarrow.csv" if path == PARSES_CSV else "")
    if folder in SEEDED:
        found += _seed_breaches(folder, names)
    return [f"{path}:{line}: {text}" for line, text in sorted(set(found))]


def _layer_breaches(folder: str, names: Names) -> Iterator[tuple[int, str]]:
    for line in names.relative:
        yield line, "a relative import: write the full name"
    allowed = {folder, *below(folder)}
    ground = ", ".join(sorted(below(folder))) or "nothing of ours"
    for line, name in names.imported:
        top, _, rest = name.partition(".")
        target = rest.partition(".")[0]
        if top == PACKAGE and target not in allowed:
            whom = f"{PACKAGE}.{target}" if target in STANDS_ON else "the front door"
            yield line, f"{folder} imports {whom}, and stands on {ground}"


def _program_breaches(names: Names) -> Iterator[tuple[int, str]]:
    for line, name in names.imported:
        if name.startswith(f"{PACKAGE}."):
            yield line, f"a user's program imports {PACKAGE} alone, not {name}"


def _world_breaches(folder: str, names: Names, allowed: str) -> Iterator[tuple[int, str]]:
    for line, name in names.imported + names.used:
        parts = name.split(".")
        for prefix in (".".join(parts[:n]) for n in range(1, len(parts) + 1)):
            if prefix in WORLD and prefix != allowed:
                yield line, f"{folder} is pure, and {prefix} is {WORLD[prefix]}"


def _seed_breaches(folder: str, names: Names) -> Iterator[tuple[int, str]]:
    for line, name in names.imported + names.used:
        if name.startswith(("random.", "numpy.random.")) and not name.startswith(
            tuple(GENERATORS | GENERATOR_TYPES)
        ):
            yield line, f"{folder} replays from a seed, and {name} has none"
    for line, name in names.called_bare:
        if name in GENERATORS:
            yield line, f"{folder} replays from a seed, and {name}() has none"


# -- the repository -------------------------------------------------------------------------------


def folders_of(root: Path) -> set[str]:
    """The folders of a repository that are packages, and those that the front door links to."""
    packages = {init.parent.name for init in root.glob("*/__init__.py")}
    links = {entry.name for entry in (root / "src" / PACKAGE).iterdir() if entry.is_symlink()}
    return packages | links


def folder_breaches(root: Path) -> Iterator[str]:
    """What is wrong with the folders themselves, one sentence each."""
    for name in sorted(folders_of(root)):
        link = root / "src" / PACKAGE / name
        if name not in STANDS_ON:
            yield f"{name}/: not in STANDS_ON (tests/gates/layering.py); say what it stands on"
        if not (root / name / "__init__.py").is_file():
            yield f"{name}/: no __init__.py"
        if not link.is_symlink() or str(link.readlink()) != f"../../{name}":
            yield f"{name}/: ln -s ../../{name} src/{PACKAGE}/{name}"


def repository_breaches(root: Path) -> Iterator[str]:
    """Everything that is wrong with a repository."""
    yield from folder_breaches(root)
    for name in sorted(folders_of(root) & STANDS_ON.keys()):
        for module in sorted((root / name).rglob("*.py")):
            yield from breaches(module.relative_to(root).as_posix(), module.read_text("utf-8"))
