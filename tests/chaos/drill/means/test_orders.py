"""Orders reach processes, and what processes count reaches the harness, also of the dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from gapless.chaos.drill.means import orders as module
from gapless.chaos.drill.means.orders import (
    BROKEN,
    FOLDER,
    Effects,
    Order,
    Orders,
    orders_in,
    version_of,
)
from gapless.protocol.errors import Misuse


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"what": "explode"}, "lose, double"),
        ({"what": "lose", "messages": "letters"}, "frames, feedback"),
        ({"what": "lose", "who": ""}, "everybody"),
        ({"what": "lose", "share": 0}, "share"),
        ({"what": "lose", "share": 1.1}, "share"),
        ({"what": "delay", "ms": -1}, "ms"),
        ({"what": "delay"}, "changes nothing"),
        ({"what": "slow disk"}, "changes nothing"),
        ({"what": "clock", "ms": 10**12}, "ms"),
    ],
)
def test_an_order_that_cannot_be_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(Misuse, match=says):
        Order(**wrong)


def test_an_order_is_for_a_slot_for_all_of_a_kind_or_for_everybody() -> None:
    slots = ("m0.0", "r0.1", "r1.1", "root")
    for who, them in (
        ("m0.0", {"m0.0"}),
        ("r*", {"r0.1", "r1.1"}),
        ("r0.*", {"r0.1"}),
        ("root", {"root"}),
        ("*", set(slots)),
    ):
        assert {slot for slot in slots if Order("lose", who).is_for(slot)} == them


def test_processes_see_what_holds_and_that_it_has_changed(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    seen = [version_of(tmp_path)]
    assert orders_in(tmp_path) == {}
    lose, clock = Order("lose", "m*", "frames", 0.2, seed=7), Order("clock", ms=-3_000)
    first = orders.give(lose)
    seen.append(version_of(tmp_path))
    second = orders.give(clock)
    seen.append(version_of(tmp_path))
    assert orders_in(tmp_path) == {first: lose, second: clock}
    orders.take_back(first)
    seen.append(version_of(tmp_path))
    assert orders_in(tmp_path) == {second: clock}
    orders.take_back(first)
    assert version_of(tmp_path) == seen[-1], "nothing was there to be taken back"
    assert orders.give(lose) > second, "a number is never given twice: its count goes on"
    assert len(set(seen)) == len(seen)


def test_without_a_harness_no_order_holds(tmp_path: Path) -> None:
    assert version_of(tmp_path / "gone") == 0
    assert orders_in(tmp_path / "gone") == {}


def test_effects_are_summed_over_processes_and_stay_when_one_is_killed(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    mine = Effects(tmp_path)
    for _ in range(3):
        mine.note(1)
    mine.note(2)
    program = f"""
        import os, signal
        from pathlib import Path
        from gapless.chaos.drill.means.orders import Effects
        effects = Effects(Path({str(tmp_path)!r}))
        for _ in range(5):
            effects.note(1)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [orders.struck(number) for number in (1, 2, 3)] == [8, 1, 0]


def test_a_folder_is_of_one_run(tmp_path: Path) -> None:
    Orders(tmp_path)
    with pytest.raises(Misuse, match="another run"):
        Orders(tmp_path)


def test_so_many_orders_are_given_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ORDERS_MAX", 3)
    orders = Orders(tmp_path)
    assert [orders.give(Order("lose")) for _ in range(2)] == [1, 2]
    with pytest.raises(Misuse, match="more than 3"):
        orders.give(Order("lose"))


def test_the_settings_for_ray_name_a_hook_that_is_there_and_all_that_it_needs(
    tmp_path: Path,
) -> None:
    orders = Orders(tmp_path)
    settings = orders.runtime_env("skips gaps")
    where, _, what = settings["worker_process_setup_hook"].rpartition(".")
    program = f"from {where} import {what}; {what}()"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **settings["env_vars"]}, check=False
    )
    assert done.returncode == 0
    assert settings["env_vars"] == {FOLDER: str(tmp_path), BROKEN: "skips gaps"}
    assert orders.runtime_env()["env_vars"] == {FOLDER: str(tmp_path)}


def test_a_build_that_there_is_not_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="skips gaps"):
        Orders(tmp_path).runtime_env("works fine")
