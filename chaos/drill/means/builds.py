"""Broken builds on real processes: a machine's class is replaced where its shell takes it from.

    gapless.actors.merger    Merger, MergerIO,           in the processes of a job, by the hook
                             LMerge, OutputJournal       that inside.py plants
    gapless.actors.replica   Replica, ReplicaIO
    gapless.actors.root      Supervisor, SupervisorIO
    gapless.actors.subscriber_start   Subscriber                  in the driver: `planted_build`

The shells know nothing of it: a module's name is bound to another class before any is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module

from gapless.chaos.planted.builds import BROKEN_BUILDS
from gapless.chaos.sim.simulator import Build
from gapless.protocol.errors import Misuse

PLACES: Mapping[str, tuple[str, str]] = {
    "merger": ("gapless.actors.merger", "Merger"),
    "merge": ("gapless.actors.merger", "LMerge"),
    "output": ("gapless.actors.merger", "OutputJournal"),
    "merger_io": ("gapless.actors.merger", "MergerIO"),
    "replica": ("gapless.actors.replica", "Replica"),
    "replica_io": ("gapless.actors.replica", "ReplicaIO"),
    "supervisor": ("gapless.actors.root", "Supervisor"),
    "supervisor_io": ("gapless.actors.root", "SupervisorIO"),
    "subscriber": ("gapless.actors.subscriber_start", "Subscriber"),
}
"""By field of a build, the module and the name in it under which a shell finds the class."""


def build_named(name: str) -> Build:
    """The broken build of that name. Raises `Misuse` with those that there are."""
    if name not in BROKEN_BUILDS:
        raise Misuse(f"there is no broken build {name!r}; there are: {', '.join(BROKEN_BUILDS)}")
    return BROKEN_BUILDS[name]


def plant_build(name: str) -> Callable[[], None]:
    """Has this process run the machines of a broken build. Returns what undoes it."""
    build = build_named(name)
    undo = ExitStack()
    for field, (module, of) in PLACES.items():
        replaced(import_module(module), of, getattr(build, field), undo)
    return undo.close


@contextmanager
def planted_build(name: str) -> Iterator[None]:
    """As `plant_build`, for a while."""
    undo = plant_build(name)
    try:
        yield
    finally:
        undo()


def replaced(owner: object, name: str, by: object, undo: ExitStack) -> None:
    """Binds a name of a module or class to something else, until `undo` is closed."""
    undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, by)
