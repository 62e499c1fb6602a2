"""Sessions of replicas at a merger: who is let in; each frame is taken in once, and in order."""

from __future__ import annotations

import random

import pytest

from gapless.failover.merger.durable_output import DurableOutput
from gapless.failover.merger.input_sessions import InputSessions
from gapless.failover.merger.inputs import AttachedInputs
from gapless.failover.merger.tallies import Tallies
from gapless.failover.messages import Ack, Attach, Data, Refused, Session
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import BEGIN
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.failover.mergers import M1, R0, TIMING, frame, life, sent, session


def sessions(kind: type[InputSessions] = InputSessions) -> InputSessions:
    merge, links = LMerge(DEFAULT_SCHEMA, "r3"), AttachedInputs()
    output, tallies = DurableOutput(merge, 0, TIMING), Tallies(merge, links)
    return kind(M1, 1, merge, links, tallies, output, acks_each=True)


def attach(who: Session = R0, text: str = "") -> Attach:
    return Attach(who, BEGIN, frame(text))


def test_a_frame_is_taken_in_once_however_often_it_comes() -> None:
    inputs = sessions()
    inputs.on_attach(attach(), 0)
    for _ in range(3):
        (ack,) = sent(inputs.on_data(Data(R0, 1, frame("ins(A,1,9)")), 0))
        assert ack.sequence == 1
    assert inputs.taken_in(R0) == 1
    inputs.validate(None)


def test_a_frame_that_overtook_another_is_taken_in_behind_it() -> None:
    inputs = sessions()
    inputs.on_attach(attach(), 0)
    (ack,) = sent(inputs.on_data(Data(R0, 2, frame("ins(B,2,9)")), 0))
    assert ack.sequence == 0
    (ack,) = sent(inputs.on_data(Data(R0, 1, frame("ins(A,1,9)")), 0))
    assert ack.sequence == 2


def test_a_life_that_is_fenced_is_refused_and_so_is_what_it_says_later() -> None:
    inputs = sessions()
    inputs.on_attach(attach(), 0)
    (refused,) = sent(inputs.fence(life("r0.0", 2)), Refused)
    assert refused.fenced
    assert not inputs.attached
    (again,) = sent(inputs.on_attach(attach(session(attempt=2)), 0), Refused)
    assert again.fenced
    (later,) = sent(inputs.on_data(Data(R0, 1, frame("ins(A,1,9)")), 0), Refused)
    assert later.reason == "no such session"
    assert sent(inputs.on_attach(attach(session(counter=2)), 0), Ack)
    inputs.validate(None)


def difference(seed: int, kind: type[InputSessions] = InputSessions) -> bool:
    """Whether what is merged is not what was said, over a network that repeats and reorders."""
    rng = random.Random(seed)
    inputs = sessions(kind)
    inputs.on_attach(attach(), 0)
    frames = {n: frame(f"ins(A,{n},{n + 3}) stable({n})") for n in range(1, 12)}
    taken = 0
    for _ in range(500):  # as a sender does: some of what is not acked, again and again
        sequence = rng.randint(max(1, taken - 1), min(len(frames), taken + 3))
        for ack in sent(inputs.on_data(Data(R0, sequence, frames[sequence]), 0), Ack):
            taken = max(taken, ack.sequence)
    said, merged = Tdb(DEFAULT_SCHEMA), Tdb(DEFAULT_SCHEMA)
    for each in frames.values():
        said.fold(each)
    merged.fold(inputs._merge.live())
    at = inputs._merge.stable
    return taken != 11 or at != 11 or merged.since(at) != said.since(at)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_merged_is_what_was_said_whatever_the_network_does(seed: int) -> None:
    assert not difference(seed)


class TakesWhateverComes(InputSessions):
    """Does not look at the order."""

    def expects(self, session: Session, sequence: int) -> bool:
        return sequence > 0 or super().expects(session, sequence)


def test_one_that_does_not_look_at_the_order_is_seen() -> None:
    def is_seen(seed: int) -> bool:
        try:
            return difference(seed, TakesWhateverComes)
        except KeyError:  # an input that LMerge has let go of
            return True

    assert any(is_seen(seed) for seed in range(20))
