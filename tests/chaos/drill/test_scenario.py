"""A scenario is refused as it is read, before anything starts, with what there is instead."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from gapless.chaos.drill import faults as faults_folder
from gapless.chaos.drill.faults.all import FAULTS
from gapless.chaos.drill.faults.by_order import ByOrder
from gapless.chaos.drill.faults.fault import Fault, Planned
from gapless.chaos.drill.faults.on_the_way import OnTheWay
from gapless.chaos.drill.means.cgroups import SHARE_MIN
from gapless.chaos.drill.means.small_disk import MEGABYTES_MAX
from gapless.chaos.drill.scenario import (
    AT_S_MAX,
    BYTES_MAX,
    FAULTS_MAX,
    Random,
    Scenario,
    available,
    library,
    loaded,
    not_available,
    parsed,
)
from gapless.chaos.drill.workloads import REAL_WORKLOADS
from gapless.protocol.errors import Misuse

KILL = '[[faults]]\nfault = "kill replica"\nat = 1.0\n'
WHOLE = """
about = "All that can be said."
workload = "filter"
rate = 500
replicas = 2
mergers = 2
nodes = 3
plans = ["filter"]
seed = 7
checkpoint_s = 1
on_divergence = "majority"
calm_s = 0

[[faults]]
fault = "kill rejoining"
at = 1
target = "r0.1"
times = 3

[[faults]]
fault = "partition"
at = 2.5
lasts = 4
target = "n3"

[random]
count = 3
every = [0, 2.5]
faults = ["kill merger"]

[holds]
pause_ms = 900
whole_s = 20
alarm = "damaged"
"""


@pytest.fixture(autouse=True)
def every_fault_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine can have: what is tested are scenarios."""
    for kind in FAULTS.values():
        monkeypatch.setattr(kind, "why_not", lambda: None)


def refused(text: str, *said: str) -> None:
    with pytest.raises(Misuse) as raised:
        parsed("mine", text).check()
    for part in ("scenario mine", *said):
        assert part in str(raised.value)


# -- what is read ---------------------------------------------------------------------------------


def test_a_scenario_with_all_that_can_be_said_is_read() -> None:
    scenario = parsed("mine", WHOLE)
    scenario.check()
    assert (scenario.name, scenario.workload, scenario.rate) == ("mine", "filter", 500)
    assert (scenario.replicas, scenario.mergers, scenario.nodes) == (2, 2, 3)
    assert (scenario.seed, scenario.plans, scenario.on_divergence) == (7, ("filter",), "majority")
    assert scenario.faults == (
        Planned("kill rejoining", 1, target="r0.1", settings={"times": 3}),
        Planned("partition", 2.5, 4, "n3"),
    )
    assert scenario.random == Random(3, every=(0, 2.5), faults=("kill merger",))
    assert (scenario.holds.pause_ms, scenario.holds.whole_s) == (900, 20)
    assert scenario.holds.alarm == "damaged"
    assert scenario.kinds() == ("kill rejoining", "partition", "kill merger")
    assert scenario.parts() == {"network"}
    assert scenario.document()["faults"][0]["settings"] == {"times": 3}


def test_what_is_not_said_has_defaults() -> None:
    scenario = parsed("mine", KILL)
    scenario.check()
    assert scenario == Scenario("mine", faults=(Planned("kill replica", 1.0),))
    assert scenario.workload in REAL_WORKLOADS
    assert not scenario.is_long


def test_it_takes_as_long_as_its_faults_and_what_follows_each() -> None:
    once = parsed("mine", KILL + "[holds]\nwhole_s = 10")
    assert once.seconds_at_most == 1.0 + 10 + once.calm_s
    healed = parsed("mine", '[[faults]]\nfault = "stop replica"\nat = 1.0\nlasts = 8.0')
    assert healed.seconds_at_most == 9.0 + healed.holds.whole_s + healed.calm_s
    drawn = parsed("mine", '[random]\ncount = 4\nevery = [1, 2]\nfaults = ["kill merger"]')
    assert drawn.seconds_at_most == (4 + 1) * 30.0 + 4 * 2.0 + 2.0
    assert drawn.lasting(5).seconds_at_most > 300
    assert drawn.lasting(5).is_long


def test_only_what_has_faults_at_random_lasts() -> None:
    with pytest.raises(Misuse, match=r"scenario mine: has no \[random\] faults"):
        parsed("mine", KILL).lasting(3)


def test_at_random_strikes_what_is_listed_or_all_that_can_be() -> None:
    text = "[random]\ncount = 3\n"
    assert parsed("mine", f'{text}faults = ["kill root"]').at_random() == ("kill root",)
    small, large = parsed("mine", text), parsed("mine", f"nodes = 3\nmergers = 2\n{text}")
    assert {"kill root", "lose frames"} <= set(small.at_random()) < set(large.at_random())
    assert {"partition", "flip output"} <= set(large.at_random())
    assert set(large.at_random()) == {n for n, kind in FAULTS.items() if kind.bears_random}
    assert small.parts() == {"inside"}
    assert parsed("mine", KILL).at_random() == ()


# -- what is refused ------------------------------------------------------------------------------

NUMBERS = ("nan", "inf", "-inf", "-1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("about = [", ["is not TOML"]),
        ("a = " + "[" * 50_000, ["is not TOML"]),
        ('name = "other"\n' + KILL, ["no 'name'", "called as its file is"]),
        ("repeat = 3\n" + KILL, ["there is no 'repeat'", "replicas", "on_divergence"]),
        ("[holds]\nloss = 0\n" + KILL, ["holds: there is no 'loss'", "pause_ms, whole_s, alarm"]),
        ("[random]\nkinds = []", ["random: there is no 'kinds'", "count, minutes, every, faults"]),
        ("faults = 3", ["[[faults]]"]),
        ("faults = [3]", ["[[faults]]"]),
        ("[faults]\nat = 1", ["[[faults]]"]),
        ("holds = 3\n" + KILL, ["holds: a table"]),
        ("random = []", ["random: a table"]),
        ("[[faults]]\nat = 1.0", ["fault is not said"]),
        ('[[faults]]\nfault = "kill replica"', ["at is not said"]),
        ("", ["nothing breaks in it"]),
        ('workload = "nobody"\n' + KILL, ["no workload 'nobody'", *REAL_WORKLOADS]),
        ('plans = ["wid", "fast"]\n' + KILL, ["no plan 'fast' of talkers", "paned, wid"]),
        ('on_divergence = "panic"\n' + KILL, ['"report", "stop" or "majority"']),
        ("seed = -1\n" + KILL, ["seed = -1: from 0"]),
        ("nodes = 9\n" + KILL, ["nodes = 9: from 1 to 8"]),
        ("mergers = 3\n" + KILL, ["mergers = 3: from 1 to 2"]),
        ("replicas = 0\n" + KILL, ["replicas = 0: from 1 to 9"]),
        ('[holds]\nalarm = ""\n' + KILL, ["a part of what the alarm says"]),
        (KILL * (FAULTS_MAX + 1), [f"more than {FAULTS_MAX} faults"]),
        (f"[random]\ncount = {FAULTS_MAX}\n" + KILL, [f"more than {FAULTS_MAX} faults"]),
        ("[random]\nevery = [1, 2]", ["either a count of faults, or minutes"]),
        ("[random]\ncount = 1\nminutes = 1", ["either a count of faults, or minutes"]),
        ("[random]\ncount = -1", ["random.count = -1: 1 or more"]),
        ("[random]\nminutes = 0.5", ["random.minutes = 0.5: from 1 to"]),
        ("[random]\ncount = 1\nevery = [2, 1]", ["random.every = [2, 1]"]),
        ("[random]\ncount = 1\nevery = [-1, 1]", ["random.every = [-1, 1]"]),
        ("[random]\ncount = 1\nevery = [0, inf]", ["random.every = [0, inf]"]),
        ("[random]\ncount = 1\nevery = [nan, 1]", ["random.every = [nan, 1]"]),
        ("[random]\ncount = 1\nevery = [1]", ["every = [1]: wanted is"]),
        ('[random]\ncount = 1\nfaults = ["kill"]', ["no fault 'kill'", *FAULTS]),
        ('[random]\ncount = 1\nfaults = ["kill gcs"]', ["put it under [[faults]]"]),
        ('[random]\ncount = 1\nfaults = ["partition"]', ["needs nodes = 2 at least"]),
    ],
)
def test_what_cannot_be_is_refused_with_what_there_is(text: str, said: list[str]) -> None:
    refused(text[:BYTES_MAX], *said)


@pytest.mark.parametrize("value", [*NUMBERS, '"2"', "true", "[]", "{}"])
@pytest.mark.parametrize("name", ["checkpoint_s", "calm_s", "pause_ms", "whole_s", "minutes"])
def test_a_number_that_is_none_or_has_no_sense_is_refused(name: str, value: str) -> None:
    table = {"pause_ms": "[holds]\n", "whole_s": "[holds]\n", "minutes": "[random]\n"}
    refused(f"{table.get(name, '')}{name} = {value}\n{KILL}", name)


@pytest.mark.parametrize("value", ["2.5", '"2"', "true", "1e999"])
@pytest.mark.parametrize("name", ["rate", "replicas", "mergers", "nodes", "seed"])
def test_what_is_counted_takes_whole_numbers(name: str, value: str) -> None:
    refused(f"{name} = {value}\n{KILL}", f"{name} = ", "int")


@pytest.mark.parametrize("name", ["about", "workload"])
def test_what_is_called_takes_text(name: str) -> None:
    refused(f"{name} = 3\n{KILL}", f"{name} = 3: wanted is str")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ('fault = "kill replicas"\nat = 1', ["no fault 'kill replicas'", *FAULTS]),
        *(
            (f'fault = "kill replica"\nat = {at}', ["kill replica: at = "])
            for at in (*NUMBERS, AT_S_MAX + 1)
        ),
        *(
            (f'fault = "stop replica"\nat = 1\nlasts = {lasts}', ["stop replica: lasts = "])
            for lasts in (*NUMBERS, 0, AT_S_MAX + 1)
        ),
        ('fault = "kill replica"\nat = "1"', ["at = '1': wanted is float"]),
        ('fault = "kill replica"\nat = true', ["at = True: wanted is float"]),
        ('fault = "kill replica"\nat = 1\nlasts = 2', ["has no end, so it takes no `lasts`"]),
        ('fault = "kill replica"\nat = 1\nshare = 1', ["no 'share'; it has: at, lasts, target"]),
        ('fault = "lose frames"\nat = 1\nms = 1', ["no 'ms'; it has: at, lasts, target, share"]),
        ('fault = "lose frames"\nat = 1\nshare = "all"', ["share = 'all': like 0.2, its default"]),
        ('fault = "lose frames"\nat = 1\nshare = true', ["share = True: like 0.2"]),
        ('fault = "lose frames"\nat = 1\nshare = [1]', ["share = [1]: like 0.2"]),
        ('fault = "kill rejoining"\nat = 1\ntimes = 1.5', ["times = 1.5: like 2, its default"]),
        *(
            (f'fault = "lose frames"\nat = 1\nshare = {share}', ["lose frames: share = "])
            for share in (*NUMBERS, 0, 1.01)
        ),
        ('fault = "fill disk"\nat = 1\nmegabytes = 0', ["megabytes = 0: from 1 to"]),
        ('fault = "kill node"\nat = 1', ["needs nodes = 2 at least, and the scenario has 1"]),
        ('fault = "flip output"\nat = 1', ["needs mergers = 2 at least"]),
        *(
            (f'fault = "{fault}"\nat = 1\ntarget = "{target}"', [f"no target '{target}'", there])
            for fault, target, there in (
                ("kill replica", "r0.3", "r0.0, r0.1, r0.2"),
                ("kill replica", "m0.0", "r0.0, r0.1, r0.2"),
                ("stop replica", "r1.0", "r0.0, r0.1, r0.2"),
                ("kill merger", "", "there are: m0.0"),
                ("kill merger", "m0.1", "there are: m0.0"),
                ("kill root", "root", "it takes none"),
                ("lose frames", "r*", "m0.0, m*"),
                ("lose feedback", "m0.0", "r0.2, r*"),
                ("slow disk", "q*", "root, *"),
            )
        ),
        ('fault = "kill replica"\nat = 1\ntarget = 1', ["target = 1: wanted is str"]),
    ],
)
def test_a_fault_that_cannot_be_is_refused_with_what_there_is(fault: str, said: list[str]) -> None:
    refused(f"[[faults]]\n{fault}", *said)


def test_the_head_of_a_cluster_and_nodes_that_are_not_there_are_no_targets() -> None:
    text = 'nodes = 2\n[[faults]]\nfault = "kill node"\nat = 1\ntarget = "{}"'
    parsed("mine", text.format("n2")).check()
    for node in ("n1", "n3", "n9", "2"):
        refused(text.format(node), f"no target '{node}'; there are: n2")


def test_what_needs_a_stage_made_for_it_is_there_once() -> None:
    text = '[[faults]]\nfault = "fill disk"\nat = 1\n'
    parsed("mine", text).check()
    refused(text * 2, "fill disk takes a stage made for it: once")


def test_what_is_played_instead_of_a_workload_has_plans_of_its_own() -> None:
    scenario = parsed("mine", 'workload = "mine too"\nplans = ["fast"]\n' + KILL)
    given = replace(
        REAL_WORKLOADS["filter"], plans={"fast": REAL_WORKLOADS["filter"].plans["filter"]}
    )
    scenario.check(given)
    with pytest.raises(Misuse, match="no plan 'fast' of filter"):
        scenario.check(REAL_WORKLOADS["filter"])


@pytest.mark.parametrize("text", [KILL, '[random]\ncount = 1\nfaults = ["kill replica"]'])
def test_a_fault_that_this_machine_cannot_have_is_refused_with_those_that_it_can(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FAULTS["kill replica"], "why_not", lambda: "it has no processes: buy some")
    refused(text, "cannot have 'kill replica': it has no processes: buy some", "kill merger, ")
    assert "kill replica" not in available()
    assert not_available() == {"kill replica": "it has no processes: buy some"}
    assert "kill replica" not in parsed("mine", "[random]\ncount = 1").kinds()


def test_a_name_that_is_no_scenario_and_no_file_is_refused_with_all_names() -> None:
    with pytest.raises(Misuse, match="no scenario 'kill-everyone', and no such file") as raised:
        loaded("kill-everyone")
    for name in library():
        assert name in str(raised.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"about = \xff", "utf-8"),
        (b"#" * (BYTES_MAX + 1), f"more than {BYTES_MAX} bytes"),
        (b"about", "is not TOML"),
    ],
)
def test_a_file_that_is_none_is_refused(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(data)
    with pytest.raises(Misuse, match=said):
        loaded(str(tmp_path / "mine.toml"))


def test_a_file_is_called_as_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(KILL)
    assert loaded(str(tmp_path / "mine.toml")).name == "mine"


# -- what ships -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", library())
def test_a_scenario_that_ships_can_be_played(name: str) -> None:
    scenario = loaded(name)
    scenario.check()
    assert scenario.name == name
    assert scenario.about[0].isupper()
    assert scenario.about.endswith(".")
    assert scenario.holds.whole_s <= 60
    assert all(planned.at < 30 for planned in scenario.faults), "nobody waits for that"


def test_every_fault_is_in_a_scenario_that_ships() -> None:
    found = {kind for name in library() for kind in loaded(name).kinds()}
    assert found == set(FAULTS)


def test_a_scenario_for_each_kind_of_fault_ships() -> None:
    assert len(library()) >= len(FAULTS) >= 25


# -- faults ---------------------------------------------------------------------------------------


def test_every_fault_of_the_folder_is_listed() -> None:
    folder = Path(str(faults_folder.__file__)).parent
    modules = [
        import_module(f"gapless.chaos.drill.faults.{path.stem}") for path in folder.glob("*.py")
    ]
    found = [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Fault) and kind.__module__ == module.__name__
    ]
    named = {kind for kind in found if "name" in vars(kind)}
    assert named == set(FAULTS.values())


def what_it_does(kind: type[Fault]) -> tuple[object, ...]:
    return kind.inject, kind.heal, *(getattr(kind, name, None) for name in ("order", "rule"))


def test_faults_of_one_file_do_the_same_to_different_roles() -> None:
    files: dict[str, list[type[Fault]]] = {}
    for kind in FAULTS.values():
        files.setdefault(kind.__module__, []).append(kind)
    for module, kinds in files.items():
        assert len({what_it_does(kind) for kind in kinds}) == 1, module
    assert len(files) < len(FAULTS)


@pytest.mark.parametrize("kind", FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_says_what_it_is(kind: type[Fault]) -> None:
    assert 2 <= len(kind.name.split()) <= 5 or kind.name in {"partition", "refuse"}
    assert kind.name == kind.name.lower()
    assert kind.about[0].isupper()
    assert kind.about.endswith(".")
    assert kind.__doc__
    heals = kind.heal is not Fault.heal
    assert heals == (kind.lasts is not None), "what lasts is healed, and what is healed lasts"
    for name, default in kind.settings.items():
        low, high = kind.limits[name]
        assert low <= default <= high


def extremes(kind: type[Fault]) -> Iterator[Fault]:
    for end in (0, 1):
        settings = {name: kind.limits[name][end] for name in kind.settings}
        yield kind(Planned(kind.name, 0.0, settings=settings), random.Random(0))


def test_what_a_scenario_may_say_the_means_take() -> None:
    for kind in FAULTS.values():
        for fault in extremes(kind):
            if isinstance(fault, ByOrder):
                fault.order("*")
            if isinstance(fault, OnTheWay):
                fault.rule()
    assert FAULTS["starve cpu"].limits["share"][0] >= SHARE_MIN
    assert FAULTS["fill disk"].limits["megabytes"] == (1, MEGABYTES_MAX)


def test_a_fault_draws_the_same_with_the_same_seed() -> None:
    def drawn(seed: str) -> list[int]:
        fault = FAULTS["kill replica"](Planned("kill replica", 0.0), random.Random(seed))
        return [fault.rng.randrange(1_000_000) for _ in range(5)]

    assert drawn("7 0") == drawn("7 0") != drawn("7 1")
