"""Waits are chosen by name, make sense together, and are all in the manual."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from gapless.actors.setup import RAY_TIMING
from gapless.failover.job.settings import Settings, from_document, to_document
from gapless.failover.timing import MS_MAX, NOT_SHORTER, Timing, changed, checked
from gapless.protocol.errors import DecodeError, Misuse

MANUAL = Path(__file__).parents[2] / "docs" / "run.md"


@pytest.mark.parametrize("timing", [Timing(), RAY_TIMING])
def test_the_defaults_make_sense(timing: Timing) -> None:
    assert checked(timing) is timing


def test_a_change_by_name_changes_that_wait_alone() -> None:
    waits = changed(RAY_TIMING, {"hang_ms": 3_000})
    assert waits.hang_ms == 3_000
    assert {f.name for f in fields(Timing) if getattr(waits, f.name) != getattr(RAY_TIMING, f.name)}
    assert changed(waits, {"hang_ms": RAY_TIMING.hang_ms}) == RAY_TIMING


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hang": 1}, "there is no hang; there are heartbeat_ms"),
        ({"hang_ms": 0}, "1 or more"),
        ({"hang_ms": 1.5}, "hang_ms 1.5"),
        ({"hang_ms": True}, "hang_ms True"),
        ({"hang_ms": "3s"}, "hang_ms '3s'"),
        ({"kill_ms": MS_MAX + 1}, "at most"),
        ({"heartbeat_ms": 400}, "3 times heartbeat_ms 400"),
        ({"hang_ms": 6_000}, "join_ms 5000 is shorter than hang_ms 6000"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_it_should_be(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(Misuse, match=re.escape(says)):
        changed(RAY_TIMING, changes)


@pytest.mark.parametrize(("longer", "shorter"), NOT_SHORTER)
def test_no_wait_is_shorter_than_what_it_waits_for(longer: str, shorter: str) -> None:
    with pytest.raises(Misuse, match="is shorter than"):
        changed(RAY_TIMING, {longer: getattr(RAY_TIMING, shorter) - 1})


def test_a_job_keeps_its_waits() -> None:
    waits = changed(RAY_TIMING, {"hang_ms": 3_000})
    assert from_document(to_document(Settings(timing=waits))).timing == waits
    assert from_document(to_document(Settings())).timing is None
    for wrong in (7, {"hung_ms": 1}):
        with pytest.raises((DecodeError, Misuse)):
            from_document({"timing": wrong})  # type: ignore[dict-item]  # as a damaged record has it


def test_the_manual_has_every_wait_with_what_it_is_on_ray() -> None:
    told = dict(re.findall(r"^ {4}(\w+_ms) +(\d+)  ", MANUAL.read_text(), re.MULTILINE))
    assert {name: int(ms) for name, ms in told.items()} == {
        field.name: getattr(RAY_TIMING, field.name)
        for field in fields(Timing)
        if field.name != "checkpoint_ms"
    }
