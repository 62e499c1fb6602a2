"""What an effect means is said in one place: each class of effect has one interpreter.

The gate reads which classes of failover/effects.py each module names as the key of a doer, in a
`case`, or in an `isinstance`. Shells that hand an effect on, whole, name none.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import gapless
from gapless.failover import effects
from gapless.failover.io.merger_io import EFFECTS

SOURCES = Path(gapless.__file__).parent
SHELLS = ("actors", "sidecar", "chaos/sim")
PLACE = "failover/io/merger_io.py"
ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "sidecar/server/stream.py": {
        "ReadOutput": "asks the interpreter for what is in memory before another thread does it",
        "ReadPeer": "hands it to peer_reading.py: the peer is another sidecar",
        "ClosePeer": "hands it to peer_reading.py",
    },
}
"""By module, which effects of a merger it names, and why."""
MERGERS = {kind.__name__ for kind in EFFECTS}


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
    return found & {kind.__name__ for kind in get_args(effects.Effect)}


def test_no_shell_and_no_process_of_the_simulator_says_what_an_effect_of_a_merger_means() -> None:
    for folder in SHELLS:
        for path in sorted((SOURCES / folder).rglob("*.py")):
            module = path.relative_to(SOURCES).as_posix()
            named = keys_of(path.read_text()) & MERGERS
            assert named == set(ELSEWHERE.get(module, {})), module


def test_the_interpreter_of_a_merger_has_a_case_for_each_of_its_effects() -> None:
    assert keys_of((SOURCES / PLACE).read_text()) == MERGERS


def test_the_gate_sees_each_way_in_which_a_module_does_an_effect() -> None:
    assert keys_of("does = {ask.Append: f}") == {"Append"}
    assert keys_of("does[ask.Seal] = f") == {"Seal"}
    assert keys_of("match e:\n    case WatchOutput():\n        pass") == {"WatchOutput"}
    assert keys_of("does = dict.fromkeys(EFFECTS, f)") == set()
