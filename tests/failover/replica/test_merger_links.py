"""The links of a replica, taken together: the slowest of those that are awaited counts."""

from __future__ import annotations

import pytest

from gapless.failover.messages import Ack, Life, Session
from gapless.failover.replica.merger_links import MergerLinks
from gapless.failover.timing import Timing
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.failover.replicas import LIFE

NOTHING = Frame.empty(DEFAULT_SCHEMA)
REATTACH_MS = Timing().reattach_ms


def links(*mergers: str, awaited: tuple[str, ...] = ()) -> MergerLinks:
    """Each has attached, and acked that."""
    made = MergerLinks(LIFE, Timing())
    made.assign(mergers, awaited, 0)
    for name in mergers:
        made[name].attach(0, [NOTHING], 0, 0)
    return made


def hears(of: MergerLinks, merger: str, durable: int, feedback: int) -> None:
    session = of[merger].session
    assert session is not None
    of[merger].hear(Ack(session, 1, 0, durable, feedback), 1)


def test_of_those_that_are_awaited_the_slowest_counts() -> None:
    of = links("x", "y", "z", awaited=("x", "y"))
    hears(of, "x", 40, 38)
    hears(of, "y", 35, 39)
    assert (of.durable, of.feedback) == (35, 38), "z is not waited for"
    of.assign(("x", "y", "z"), (), 0)
    assert of.awaited == ("x", "y", "z")
    assert of.durable < 35
    of.validate(0)


def test_a_merger_that_comes_back_gets_no_session_that_it_had() -> None:
    of = links("x", "y")
    before = of["y"].session
    of.assign(("x",), (), 7)
    of.assign(("x", "y"), ("x",), 7)
    assert of["y"].taken == 7, "what was put out before is a part of what it begins with"
    of["y"].attach(0, [NOTHING], 0, 0)
    assert before == Session(LIFE, "y", 1)
    assert of["y"].session == Session(LIFE, "y", 2)


def test_all_begins_anew_in_new_sessions_with_the_same_mergers() -> None:
    of = links("x", "y", awaited=("x",))
    of.begin_anew(3)
    assert (of.mergers, of.awaited) == (("x", "y"), ("x",))
    assert all(link.session is None and link.taken == 3 for link in of)
    of["x"].attach(0, [NOTHING], 0, 0)
    assert of["x"].session == Session(LIFE, "x", 2)


def test_another_life_tells_all_again_and_what_is_durable_stays_so() -> None:
    of = links("x")
    hears(of, "x", 40, 38)
    later = Life("r0.0", Incarnation(3, 2))
    of.be_born_again(later, 0)
    assert (of.durable, of["x"].state) == (40, "closed")
    of["x"].attach(0, [NOTHING], 0, REATTACH_MS)
    assert of["x"].session == Session(later, "x", 1)


def test_who_was_promised_what_is_left_out_and_is_not_awaited_joins_anew() -> None:
    of = links("x", "y", "z", awaited=("x",))
    for name, feedback in (("x", 0), ("y", 9), ("z", 10)):
        hears(of, name, 0, feedback)
    of.leave_out(10)
    assert {name: of[name].state for name in of.mergers} == {
        "x": "open",
        "y": "closed",
        "z": "open",
    }


def test_there_is_room_while_one_awaited_link_is_near_the_end_or_none_is_open() -> None:
    of = links("x", "y")
    assert of.has_room(100, 4), "none is open yet"
    hears(of, "x", 0, 0)
    assert of.has_room(3, 4)
    assert not of.has_room(4, 4)
    assert of.farthest_behind() is of["x"], "of those that are open"
    of.lose("x")
    assert of.has_room(4, 4)


def test_one_that_is_awaited_and_not_assigned_is_a_bug() -> None:
    of = links("x")
    of.awaited = ("y",)
    with pytest.raises(Bug, match="awaited"):
        of.validate(0)
