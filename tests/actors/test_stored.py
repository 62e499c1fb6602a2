"""A stored output answers as the merger that wrote it: the same rows, tables, tokens, refusals."""

from __future__ import annotations

import errno
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gapless.actors import stored
from gapless.actors.stored import StoredMerger
from gapless.actors.subscriber_start import explained
from gapless.chaos.sim.disk import SimulatedDisk, View
from gapless.failover.effects import Alarm, Exit, Send, Start
from gapless.failover.io.merger_io import MergerIO
from gapless.failover.life_start import MergerStart
from gapless.failover.merger import effects as ask
from gapless.failover.merger import openings, recent_rows
from gapless.failover.merger import output_reader as output_module
from gapless.failover.merger.effects import MergerEffect, MergerEvent
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.merger.output_reader import OutputReader
from gapless.failover.merger.readers import Readers
from gapless.failover.merger.scan import end_of
from gapless.failover.messages import (
    Attach,
    Data,
    Declined,
    Delivery,
    Drain,
    Fetch,
    Message,
    Open,
    Opened,
    Token,
)
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.layout import Layout
from gapless.journal.reader import Reader
from gapless.journal.retention import Retention, trim
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import JobError
from gapless.protocol.frame import Frame
from gapless.protocol.text import DEFAULT_SCHEMA, format
from gapless.protocol.variants import random_tdb, random_telling, tell
from tests.effort import cases
from tests.failover.mergers import M1, R0, TIMING, frame, life

SEEDS = 8
QUESTIONS = 12
"""Of each kind, of one output."""
STEPS_MAX = 1000
"""Answers to one who reads on: none here gets as many."""
PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]

Ask = Callable[[Message], list[Message]]


class LiveMerger:
    """A merger that runs: its machine, its interpreter and its journal."""

    def __init__(self, disk: Disk, counter: int = 1) -> None:
        who = life(M1, counter)
        journal = OutputJournal(
            disk,
            DEFAULT_SCHEMA,
            who,
            f"t{counter}",
            lambda: 0,
            base_bytes=300,
            segment_bytes=500,
        )
        live, offset = journal.recover()
        self._io = MergerIO(journal, _no_peer, _no_alarm, explain=partial(explained, M1))
        merge = LMerge(DEFAULT_SCHEMA, "r3")
        start = MergerStart(0, ())
        self.machine = Merger(who, start, journal.epoch, merge, live, offset, TIMING)
        self._sent: list[tuple[str, Message]] = []
        self.happens(Start())

    def happens(self, event: MergerEvent) -> None:
        """An event, and all that follows from it."""
        events = deque([event])
        while events:
            for effect in self.machine.on(events.popleft(), 0):
                if (done := self._do(effect)) is not None:
                    events.append(done)

    def _do(self, effect: MergerEffect) -> MergerEvent | None:
        if isinstance(effect, Send):
            self._sent.append((effect.to, effect.message))
            return None
        assert not isinstance(effect, Exit | Alarm), effect
        return self._io.do(effect)

    def says(self, frames: list[Frame]) -> None:
        """One replica says all this."""
        self.happens(Attach(R0, BEGIN, Frame.empty(DEFAULT_SCHEMA)))
        for number, each in enumerate(frames, start=1):
            self.happens(Data(R0, number, each))

    def answer(self, question: Any) -> list[Message]:
        """To the subscriber that has asked."""
        self._sent.clear()
        self.happens(question)
        return [message for to, message in self._sent if to == question.subscriber]


def _no_peer(peer: str) -> OutputReader:
    raise AssertionError(f"nobody reads {peer}")


def _no_alarm(what: str) -> None:
    raise AssertionError(what)


# -- what subscribers learn -----------------------------------------------------------------------


def followed(answer: Ask, name: str, token: Token) -> tuple[Any, ...]:
    """All that one who begins behind a token is told until it waits, and where it stands then."""
    told: list[Frame] = []
    for _ in range(STEPS_MAX):
        answers = answer(Fetch(name, token))
        if not answers:
            break
        (said,) = answers
        if isinstance(said, Declined):
            return (said, token)
        assert isinstance(said, Delivery)
        assert said.after == token.offset
        told.append(said.frame.with_stable(None))
        token = said.token
    else:
        raise AssertionError("it never waits")
    rows = Frame.concat([Frame.empty(DEFAULT_SCHEMA), *told])
    return (format(rows.elements()), token)


def opened(answer: Ask, name: str, since: int | None) -> tuple[Any, ...]:
    """A table, in however many parts; nothing where the output does not go so far."""
    parts: list[Opened] = []
    while not parts or len(parts) < parts[0].parts:
        answers = answer(Open(name, 1, since, len(parts)))
        if not answers:
            return ()
        (said,) = answers
        if isinstance(said, Declined):
            return (said,)
        assert isinstance(said, Opened)
        assert said.part == len(parts)
        parts.append(said)
    first = parts[0]
    answer(Fetch(name, first.token))  # all of it has come
    rows = sorted(str(element) for part in parts for element in part.frame.elements())
    return (first.since, first.token, first.parts, rows)


def learned(answer: Ask, rng: random.Random, rows: int, until: int) -> list[tuple[Any, ...]]:
    """What a number of subscribers learn, of all kinds of questions that there are."""
    found: list[tuple[Any, ...]] = []
    times = [BEGIN, INF, *(rng.randrange(until + 9) for _ in range(QUESTIONS))]
    for number in range(QUESTIONS):
        slot = rng.choice((M1, M1, M1, M1, "m0.1", ""))
        token = Token(slot, rng.choice((1, 2)), rng.randrange(rows + 3), rng.choice(times))
        found.append(followed(answer, f"f{number}", token))
    found.append(followed(answer, "earliest", Token(M1, 0, 0, BEGIN)))
    found += [opened(answer, f"o{number}", since) for number, since in enumerate((None, *times))]
    return found


def whys(found: list[tuple[Any, ...]]) -> set[str]:
    return {said.why for each in found for said in each if isinstance(said, Declined)}


def same_answers(seed: int) -> set[str]:
    """Asserts that both give the same answers of one random output; why they declined any."""
    rng = random.Random(seed)
    disk = View(SimulatedDisk(), M1)
    merger = LiveMerger(disk)
    said = tell(random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS), random_telling(rng), seed)
    merger.says(said[: rng.randrange(1, len(said) + 1)])
    if is_trimmed := rng.random() < 0.5:
        retention = Retention(keep_bytes=0)
        trim(Commits(disk, Layout(DEFAULT_SCHEMA)), retention, token="trim", now_ms=0)
        merger = LiveMerger(disk, 2)  # one that has nothing of it in memory
    rows = end_of(disk)[0]
    silent = StoredMerger(M1, disk, DEFAULT_SCHEMA)
    live = learned(merger.answer, random.Random(seed), rows, 90)
    at_rest = learned(lambda question: silent.answer(question, 0), random.Random(seed), rows, 90)
    assert at_rest == live, f"seed {seed}, trimmed: {is_trimmed}"
    merger.machine.validate()
    return whys(live)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames, reads and parts of tables are small, so that an answer takes several of them."""
    monkeypatch.setattr(output_module, "Reader", partial(Reader, frame_rows=3))
    monkeypatch.setattr(recent_rows, "READ_ROWS", 3)
    monkeypatch.setattr(recent_rows, "ROWS_MAX", 16)
    monkeypatch.setattr(openings, "PART_ROWS_MAX", 4)


@pytest.mark.usefixtures("small")
def test_a_stored_output_gives_the_answers_of_the_merger_that_has_written_it() -> None:
    seen = {why for seed in range(cases(SEEDS)) for why in same_answers(seed)}
    assert seen == {"trimmed", "future", "elsewhere"}, "the questions are of every kind"


class ForgetsTheStable(Readers):
    """Hands out tokens that do not say what was promised."""

    def was_read(self, event: ask.OutputRead) -> list[MergerEffect]:
        """As the journal says, except for the token."""
        effects = super().was_read(event)
        for i, effect in enumerate(effects):
            if isinstance(effect, Send) and isinstance(effect.message, Delivery):
                said = effect.message
                token = said.token._replace(stable=BEGIN)
                effects[i] = Send(effect.to, Delivery(said.after, said.frame, token))
        return effects


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("broken", ["tokens", "end", "explanation"])
def test_that_test_sees_what_a_stored_output_says_differently(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken == "tokens":
        monkeypatch.setattr(stored, "Readers", ForgetsTheStable)
    elif broken == "end":
        monkeypatch.setattr(stored, "end_of", lambda disk: (end_of(disk)[0], BEGIN))
    else:
        monkeypatch.setattr(stored, "explained", lambda _, error: f"it is gone: {error}")
    with pytest.raises(AssertionError):
        deque(map(same_answers, range(SEEDS)), maxlen=0)


# -- what differs: nobody tells how far it goes ---------------------------------------------------


def token(offset: int, stable: int = BEGIN) -> Token:
    return Token(M1, 1, offset, stable)


def test_a_merger_that_has_not_begun_to_write_says_nothing_until_it_has() -> None:
    disk = View(SimulatedDisk(), M1)
    silent = StoredMerger(M1, disk, DEFAULT_SCHEMA)
    assert silent.answer(Fetch("s", token(0)), 0) == []
    assert silent.answer(Open("s", 1, None), 0) == []
    assert not silent.goes_on(token(0))
    LiveMerger(disk).says([frame("ins(A,1,9) stable(1)")])
    (said,) = silent.answer(Fetch("s", token(0)), 0)
    assert isinstance(said, Delivery)
    assert said.token == token(1, 1)
    assert silent.goes_on(token(0))
    assert silent.goes_on(token(7)), "it is told that there never was such a place"


def test_what_waits_for_a_later_time_is_answered_once_the_output_gets_there() -> None:
    disk = View(SimulatedDisk(), M1)
    merger = LiveMerger(disk)
    merger.says([frame("ins(A,1,9) stable(1)")])
    silent = StoredMerger(M1, disk, DEFAULT_SCHEMA)
    question = Open("s", 1, 5)
    assert silent.answer(question, 0) == []
    assert silent.answer(Fetch("f", token(1, 1)), 0) == []
    merger.happens(Data(R0, 2, frame("ins(B,3,8) stable(5)")))
    (said,) = silent.answer(question, openings.GONE_MS // 2)
    assert isinstance(said, Opened)
    assert (said.since, said.token, len(said.frame)) == (5, token(2, 5), 2)
    (more,) = silent.answer(Fetch("f", token(1, 1)), 0)
    assert isinstance(more, Delivery)
    assert more.token == token(2, 5)


def test_who_is_no_subscriber_is_not_answered() -> None:
    disk = View(SimulatedDisk(), M1)
    LiveMerger(disk).says([frame("stable(1)")])
    assert StoredMerger(M1, disk, DEFAULT_SCHEMA).answer(Drain(1), 0) == []


def test_a_journal_that_does_not_say_what_it_is_declines_each_question() -> None:
    raw = SimulatedDisk()
    disk = View(raw, M1)
    LiveMerger(disk).says([frame("stable(1)")])
    raw.flip_bit(f"{M1}/layout", random.Random(1))
    silent = StoredMerger(M1, disk, DEFAULT_SCHEMA)
    for question in (Fetch("s", token(0)), Open("s", 3, None)):
        (said,) = silent.answer(question, 0)
        assert isinstance(said, Declined)
        assert said.why == "trimmed"
        assert said.asked == (token(0) if isinstance(question, Fetch) else 3)
    assert not silent.goes_on(token(0))


def test_a_disk_that_fails_is_no_end_of_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = View(SimulatedDisk(), M1)
    LiveMerger(disk).says([frame("ins(A,1,9) stable(1)")])
    silent = StoredMerger(M1, disk, DEFAULT_SCHEMA)

    def fails(*_: Any) -> None:
        raise OSError(errno.EIO, "it has failed")

    monkeypatch.setattr(OutputReader, "read", fails)
    with pytest.raises(JobError, match=r"the output of m0\.0 does not read: .*it has failed"):
        silent.answer(Fetch("s", token(0)), 0)
