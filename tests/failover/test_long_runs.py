"""What a day leaves behind: nothing but what an hour does."""

from __future__ import annotations

import random

from gapless.failover.effects import Send
from gapless.failover.merger.effects import OutputRead, ReadOutput
from gapless.failover.merger.readers import Readers
from gapless.failover.messages import Delivery, Life, Token
from gapless.failover.statuses import CheckpointTaken
from gapless.failover.supervisor.checkpoint_policy import ASKED_MAX, KEPT, Checkpoints
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from gapless.protocol.text import DEFAULT_SCHEMA, parse

EVERY_MS = 10_000
DAY_MS = 24 * 3_600_000
KIND = (0, "plan")
TAKER = Life("r0.0", Incarnation(1, 1))


def test_a_day_of_checkpoints_keeps_as_many_as_an_hour_and_forgets_what_was_never_answered() -> (
    None
):
    rng = random.Random(7)
    checkpoints = Checkpoints(1, (), EVERY_MS)
    files: set[str] = set()
    levels: list[tuple[int, int]] = []
    for now in range(0, DAY_MS, EVERY_MS):
        if not checkpoints.is_due(KIND, now):
            continue
        name = checkpoints.ask(KIND, now)
        chance = rng.random()
        if chance < 0.1:
            continue  # nobody has heard the question
        files.add(name)
        if chance < 0.2:
            continue  # the file is there, the answer is lost
        taken = CheckpointTaken(TAKER, name, KIND[1], now)
        files.difference_update(checkpoints.taken(0, taken))
        # One merger is an hour behind: what it could start from is kept as well.
        join_by = {0: max(0, now - 3_600_000)}
        files.difference_update(checkpoints.drop([KIND], join_by, ()))
        checkpoints.validate()
        levels.append((len(checkpoints.names()), len(files)))
    hour = levels[:300]
    assert max(kept for kept, _ in levels) <= KEPT + 1
    assert max(there for _, there in levels) <= KEPT + 1 + ASKED_MAX
    assert max(levels[-300:]) <= max(hour), "the last hour has no more than the first"


def test_of_two_hundred_subscribers_half_of_which_vanish_the_others_are_kept() -> None:
    serving = Readers("m0.0", 1)
    asks = [f"s{number}" for number in range(200)]
    at = {name: Token("m0.0", 1, 0, BEGIN) for name in asks}
    for name in asks:
        serving.wait(name, at[name])
    frame = Frame.from_elements(DEFAULT_SCHEMA, parse("ins(A,1,5) stable(3)"))
    for round_ in range(20):
        here = asks if round_ < 5 else asks[::2]
        served = []
        for effect in serving.wake():
            assert isinstance(effect, ReadOutput)
            for sent in serving.was_read(OutputRead(effect.subscriber, effect.token.offset, frame)):
                assert isinstance(sent, Send)
                assert isinstance(sent.message, Delivery)
                served.append(effect.subscriber)
                at[effect.subscriber] = Token("m0.0", 1, round_ + 1, 3)
        for name in here:
            serving.wait(name, at[name])
        serving.validate()
        assert set(served) >= set(here), "everybody who asks is served"
    assert serving.waiting == 100
