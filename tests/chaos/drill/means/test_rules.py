"""A link keeps to its rule: times, order, shares and bounds."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
from hypothesis import given

from gapless.chaos.drill.means.rules import (
    BUCKET_BYTES,
    BUCKET_S,
    HELD_BYTES_MAX,
    HELD_S,
    QUEUE_BYTES_MAX,
    HostLink,
    Rule,
)
from gapless.protocol.errors import Misuse

PACKETS = 500
gaps = st.lists(st.floats(0, 0.01), min_size=20, max_size=60)


def link(rule: Rule, seed: str = "0") -> HostLink:
    found = HostLink(seed)
    found.set(rule)
    return found


def moments(of: HostLink, gaps_s: list[float], size: int = 100) -> list[tuple[float, float]]:
    """When each came, and when it goes on."""
    now_s, found = 0.0, []
    for gap_s in gaps_s:
        now_s += gap_s
        at_s = of.when(now_s, size)
        assert at_s is not None
        found.append((now_s, at_s))
    return found


def in_order(found: list[tuple[float, float]]) -> bool:
    leaves = [at_s for _, at_s in found]
    return leaves == sorted(leaves)


@given(gaps, st.floats(0, 50), st.floats(0, 50))
def test_delay_and_jitter_keep_the_order_and_their_bounds(
    gaps_s: list[float], delay_ms: float, jitter_ms: float
) -> None:
    found = moments(link(Rule(delay_ms=delay_ms, jitter_ms=jitter_ms)), gaps_s)
    assert in_order(found)
    for came_s, at_s in found:
        waited_ms = (at_s - came_s) * 1_000
        assert delay_ms - 1e-6 <= waited_ms <= delay_ms + jitter_ms + 1e-6


class Forgetful(HostLink):
    """A broken link: it does not know who is ahead."""

    __slots__ = ()

    def when(self, now_s: float, size_bytes: int) -> float | None:
        self._latest_s = -math.inf
        return super().when(now_s, size_bytes)


def test_a_link_that_forgets_who_is_ahead_does_not_keep_the_order() -> None:
    broken = Forgetful("0")
    broken.set(Rule(jitter_ms=20))
    assert not in_order(moments(broken, [0.001] * PACKETS))
    assert in_order(moments(link(Rule(jitter_ms=20)), [0.001] * PACKETS))


def test_reordering_holds_a_share_back_and_nobody_behind_it() -> None:
    found = moments(link(Rule(reorder=0.2)), [0.001] * PACKETS)
    waits_s = [at_s - came_s for came_s, at_s in found]
    held = sum(wait_s > 0 for wait_s in waits_s)
    assert 0.1 * PACKETS < held < 0.3 * PACKETS
    assert all(wait_s == pytest.approx(HELD_S) for wait_s in waits_s if wait_s)
    assert not in_order(found)


def test_loss_is_a_share_and_a_seed_says_which() -> None:
    def lost(seed: str) -> list[bool]:
        of = link(Rule(loss=0.3), seed)
        return [of.when(0.0, 100) is None for _ in range(PACKETS)]

    assert 0.2 * PACKETS < sum(lost("1")) < 0.4 * PACKETS
    assert lost("1") == lost("1")
    assert lost("1") != lost("2")


@given(st.lists(st.tuples(st.floats(0, 0.1), st.integers(1, 65_000)), min_size=1, max_size=80))
def test_no_more_than_the_bandwidth_leaves_and_the_queue_is_bounded(
    packets: list[tuple[float, int]],
) -> None:
    rate = 1e6
    of = link(Rule(bytes_per_s=rate))
    now_s, left = 0.0, []
    for gap_s, size in packets:
        now_s += gap_s
        at_s = of.when(now_s, size)
        if at_s is not None:
            assert at_s - now_s <= QUEUE_BYTES_MAX / rate + 1e-6
            left.append((at_s, size))
    for start, (from_s, _) in enumerate(left):
        sent = 0
        for at_s, size in left[start:]:
            sent += size
            assert sent <= BUCKET_BYTES + rate * (at_s - from_s) + 65_000 + 1


@pytest.mark.parametrize("kb_per_s", [1, 10, 100])
def test_a_slow_link_delays_what_hardly_loads_it(kb_per_s: int) -> None:
    """A heartbeat every second: a narrow way is narrow for it, too."""
    of = link(Rule(bytes_per_s=kb_per_s * 1e3))
    for second in range(1, 5):
        at_s = of.when(float(second), 1_500)
        assert at_s is not None
        assert at_s > second, "it has waited"


def test_a_full_queue_drops_at_its_tail_and_takes_more_once_it_has_emptied() -> None:
    of = link(Rule(bytes_per_s=1e6))
    took = [of.when(0.0, 10_000) is not None for _ in range(200)]
    assert took == sorted(took, reverse=True)
    assert sum(took) == (int(1e6 * BUCKET_S) + QUEUE_BYTES_MAX) // 10_000
    assert of.when(0.5, 10_000) is not None


@pytest.mark.parametrize("rule", [Rule(drop=True), Rule(refuse=True), Rule(loss=1.0)])
def test_nothing_passes_a_link_that_takes_nothing(rule: Rule) -> None:
    assert link(rule).when(0.0, 100) is None


def test_a_link_that_holds_too_much_takes_no_more() -> None:
    of = link(Rule(delay_ms=1_000))
    of.held_bytes = HELD_BYTES_MAX - 99
    assert of.when(0.0, 100) is None
    assert of.when(0.0, 99) is not None


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"loss": 1.1}, "from 0 to 1"),
        ({"reorder": -0.1}, "from 0 to 1"),
        ({"delay_ms": math.nan}, "from 0 to"),
        ({"jitter_ms": math.inf}, "from 0 to"),
        ({"bytes_per_s": 0}, "above 0"),
        ({"drop": True, "refuse": True}, "choose one"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(settings: dict[str, float], says: str) -> None:
    with pytest.raises(Misuse, match=says):
        Rule(**settings)  # type: ignore[arg-type]  # that is what is tried
