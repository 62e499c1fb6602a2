"""What an effect means is said in one place: each class of effect has one interpreter a machine.

    Append, Seal, ...          failover/io/merger_io.py         of a merger
    ReadOutput, ReadTable      failover/io/output_reads.py      of a merger, and of a stored output
    OpenSources, ...           failover/io/replica_io.py        of a replica
    Desire, Spawn, ...         failover/io/supervisor_io.py     of a supervisor
    Send, Exit, Alarm,         no place of its own: nothing but the world around a machine
    Emit, Give                 differs, and `OF_SHELLS` says in which way

The gate reads which classes of effects each module names as the key of a doer, or in a `case`.
Shells that hand an effect on, whole, name none.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest

import gapless
from gapless.failover.io import merger_io, output_reads, replica_io, supervisor_io
from gapless.failover.machines import Effect

SOURCES = Path(gapless.__file__).parent
SHELLS = ("actors", "sidecar", "chaos/sim")


def names(kinds: tuple[type, ...]) -> set[str]:
    return {kind.__name__ for kind in kinds}


INTERPRETERS: Mapping[str, set[str]] = {
    "failover/io/merger_io.py": names(merger_io.EFFECTS) - names(output_reads.EFFECTS),
    "failover/io/output_reads.py": names(output_reads.EFFECTS),
    "failover/io/replica_io.py": names(replica_io.EFFECTS),
    "failover/io/supervisor_io.py": names(supervisor_io.EFFECTS),
}
"""By module, the effects that it interprets."""
INTERPRETED = set[str]().union(*INTERPRETERS.values())
ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "actors/replica.py": {
        "ReadSource": "has the interpreter read that source once its lull is over",
    },
    "sidecar/server/stream.py": {
        "ReadOutput": "asks the interpreter for what is in memory before another thread does it",
        "ReadPeer": "hands it to peer_outputs.py: the peer is another sidecar",
        "ClosePeer": "hands it to peer_outputs.py",
    },
}
"""By module, which effects that have an interpreter it names all the same, and why."""
PARTS: Mapping[str, Mapping[str, str]] = {
    "Spawn": {
        "actors/life_processes.py": "a spare process of Ray's becomes the life",
        "chaos/sim/cluster.py": "a simulated process is made, after a while",
    },
    "Kill": {
        "actors/life_processes.py": "SIGKILL, by Ray and by a neighbour on its node",
        "chaos/sim/cluster.py": "a simulated process ends, unless it is out of reach",
    },
}
"""Effects that an interpreter hands to an interface: who implements that, in which way. Each has a
method of the effect's name."""
OF_SHELLS: Mapping[str, Mapping[str, str]] = {
    "Send": {
        "actors/shell.py": "a call of the receiver's actor",
        "actors/root.py": "a call of the receiver's actor",
        "actors/feed.py": "a question to a merger, of which the newest alone is asked",
        "sidecar/server/stream.py": "to a producer's or a subscriber's call in this process",
        "sidecar/server/subscribe_call.py": "to the stream's merger in this process",
        "sidecar/client/merged_consumer.py": "a question to a sidecar",
        "chaos/sim/processes.py": "the simulated network",
    },
    "Exit": {
        "actors/shell.py": "ends the pump",
        "actors/root.py": "ends the pump",
        "sidecar/server/stream.py": "ends the stream",
        "chaos/sim/processes.py": "ends the simulated process",
    },
    "Alarm": {
        "actors/shell.py": "told to the root",
        "actors/root.py": "kept for people",
        "sidecar/server/stream.py": "logged",
        "chaos/sim/processes.py": "a fact for the checkers",
    },
    "Emit": {
        "actors/feed.py": "waits for the program",
        "sidecar/server/subscribe_call.py": "is encoded for the client",
        "sidecar/client/merged_consumer.py": "waits for the program",
        "chaos/sim/processes.py": "a fact for the checkers, and the simulated program's tokens",
    },
    "Give": {
        "actors/feed.py": "an error of gapless.actors, whose callers pass tokens themselves",
        "sidecar/server/subscribe_call.py": "a status of gRPC",
        "sidecar/client/merged_consumer.py": "an error of gapless.client",
        "chaos/sim/processes.py": "the simulated program begins again",
    },
}
"""Effects without an interpreter: by module that does them, how. They reach no disk and have no
errors that a machine would have to know. A subscriber has no others, so it has no interpreter."""


def keys_of(source: str) -> set[str]:
    """Classes of effects that a module does something for: keys of its doers, and its cases."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        named: list[ast.expr | None] = []
        if isinstance(node, ast.Dict):
            named = list(node.keys)
        elif isinstance(node, ast.MatchClass):
            named = [node.cls]
        elif isinstance(node, ast.Assign):
            named = [t.slice for t in node.targets if isinstance(t, ast.Subscript)]
        for each in named:
            if isinstance(each, ast.Attribute):
                found.add(each.attr)
            elif isinstance(each, ast.Name):
                found.add(each.id)
    return found & names(get_args(Effect))


def test_each_module_of_a_shell_names_the_effects_that_the_tables_say() -> None:
    for folder in SHELLS:
        for path in sorted((SOURCES / folder).rglob("*.py")):
            module = path.relative_to(SOURCES).as_posix()
            own = {name for name, modules in OF_SHELLS.items() if module in modules}
            assert keys_of(path.read_text()) == own | set(ELSEWHERE.get(module, {})), module


def test_each_effect_has_an_interpreter_or_is_done_by_each_shell_in_its_own_way() -> None:
    assert INTERPRETED | set(OF_SHELLS) == names(get_args(Effect))
    assert not INTERPRETED & set(OF_SHELLS)


@pytest.mark.parametrize("module", INTERPRETERS)
def test_an_interpreter_has_a_case_for_each_of_its_effects_and_for_no_other(module: str) -> None:
    assert keys_of((SOURCES / module).read_text()) == INTERPRETERS[module]


def test_no_interpreter_is_missing() -> None:
    there = {path.name for path in (SOURCES / "failover" / "io").glob("*_io.py")}
    assert there == {Path(module).name for module in INTERPRETERS if module.endswith("_io.py")}


@pytest.mark.parametrize(
    ("effect", "module"), [(effect, module) for effect, ways in PARTS.items() for module in ways]
)
def test_what_an_interpreter_hands_on_has_a_method_where_the_table_says(
    effect: str, module: str
) -> None:
    defined = [
        path.relative_to(SOURCES).as_posix()
        for path in sorted((SOURCES / Path(module).parent).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == effect.lower()
    ]
    assert module in defined
    assert effect in INTERPRETED


def test_the_gate_sees_each_way_in_which_a_module_does_an_effect() -> None:
    assert keys_of("does = {ask.Append: f}") == {"Append"}
    assert keys_of("does[ask.Seal] = f") == {"Seal"}
    assert keys_of("match e:\n    case WatchOutput():\n        pass") == {"WatchOutput"}
    assert keys_of("does = dict.fromkeys(EFFECTS, f)") == set()
