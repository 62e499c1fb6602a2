"""A refusal of a push call carries the reason that Detached gives, and stays what it is."""

from __future__ import annotations

import pytest

from gapless.failover.messages import Life, Refused, Session
from gapless.protocol.envelope import Incarnation
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.server.push_refusals import (
    PushRefusal,
    of_frame,
    of_merger,
    of_stream,
    refused_as,
)
from gapless.sidecar.server.refusals import Code, Refusal, refusal_of

SESSION = Session(Life("a", Incarnation(0, 7)), "sidecar", 3)


def test_a_refusal_with_a_reason_is_told_as_the_refusal_that_it_was() -> None:
    with pytest.raises(PushRefusal) as raised, refused_as(pb.Detached.WHY_FULL):
        raise Refusal("RESOURCE_EXHAUSTED", "no place")
    assert raised.value.why == pb.Detached.WHY_FULL
    told = refusal_of(raised.value)
    assert (told.code, told.sentence) == ("RESOURCE_EXHAUSTED", "no place")


@pytest.mark.parametrize(
    ("code", "why", "blames"),
    [
        ("DATA_LOSS", pb.Detached.WHY_DAMAGED, True),
        ("INVALID_ARGUMENT", pb.Detached.WHY_BAD_CONTENT, True),
        ("RESOURCE_EXHAUSTED", pb.Detached.WHY_UNKNOWN, False),
    ],
)
def test_a_frame_that_does_not_read_is_damaged_or_bad(
    code: Code, why: pb.Detached.Why, blames: bool
) -> None:
    refusal = of_frame(Refusal(code, "frame 3"))
    assert (refusal.why, refusal.blames_a_frame) == (why, blames)


@pytest.mark.parametrize(
    ("code", "is_draining", "why"),
    [
        ("FAILED_PRECONDITION", True, pb.Detached.WHY_FENCED),
        ("NOT_FOUND", True, pb.Detached.WHY_REMOVED),
        ("UNAVAILABLE", True, pb.Detached.WHY_DRAINING),
        ("UNAVAILABLE", False, pb.Detached.WHY_LOST),
    ],
)
def test_a_stream_that_is_over_says_where_to_come_again(
    code: Code, is_draining: bool, why: pb.Detached.Why
) -> None:
    assert of_stream(Refusal(code, "it is over"), is_draining=is_draining).why == why


@pytest.mark.parametrize(
    ("fenced", "is_attached", "why", "code"),
    [
        (True, True, pb.Detached.WHY_FENCED, "FAILED_PRECONDITION"),
        (False, False, pb.Detached.WHY_FULL, "RESOURCE_EXHAUSTED"),
        (False, True, pb.Detached.WHY_BAD_CONTENT, "INVALID_ARGUMENT"),
    ],
)
def test_what_a_merger_refuses_is_a_place_before_the_attach_and_content_behind_it(
    fenced: bool, is_attached: bool, why: pb.Detached.Why, code: Code
) -> None:
    refusal = of_merger(Refused(SESSION, 1, "no", fenced), is_attached=is_attached)
    assert (refusal.why, refusal.code) == (why, code)
    assert "producer a" in refusal.sentence
