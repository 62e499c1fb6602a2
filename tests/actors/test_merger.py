"""One life of a merger over a real directory, without a cluster: what its threads answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.actors import mailboxes, merger
from gapless.actors import shell as shells
from gapless.actors.book import Book
from gapless.actors.merger import MergerShell
from gapless.actors.output_retention import OutputRetention
from gapless.actors.setup import RAY_TIMING, JobDir, Setup
from gapless.engine.plan import Plan
from gapless.failover.job.desired import Desired
from gapless.failover.job.directory import Job
from gapless.failover.job.files import JobRecord
from gapless.failover.job.settings import Settings
from gapless.failover.life_start import MergerStart
from gapless.failover.merger import output_journal, output_writer
from gapless.failover.merger.effects import Appended
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.messages import (
    Attach,
    Data,
    Declined,
    Delivery,
    Fetch,
    Life,
    Message,
    Open,
    Opened,
    Session,
    Token,
)
from gapless.journal.disk import LocalDisk
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import JournalError
from gapless.protocol.frame import Frame
from gapless.protocol.text import parse

ASKS_MAX = 200
"""Questions until an answer has come; each waits a while by itself."""
LIFE = Life("m0.0", Incarnation(1, 4))
SESSION = Session(Life("r0.0", Incarnation(1, 1)), "m0.0", 1)


class World:
    """A job's directory, and one life of its merger."""

    def __init__(self, path: Path, **settings: Any) -> None:
        flows = gl.source("flows", {"ts": "int64", "src": "int32"}, time="ts", time_unit="ms")
        query = flows.window(range=30, slide=10).group_by("src").aggregate(n=gl.count())
        self.path = path / "job"
        sources = {"flows": str(path / "flows")}
        record = JobRecord("talkers", sources, True, "r3", Settings(**settings))
        Job.create(LocalDisk(self.path), "t", record, {"a": Plan(query)}, Desired(2, ("a",)))
        self.job = JobDir(self.path)
        self.schema = self.job.schema()
        self.ended = threading.Event()
        self.reason = ""

    @contextmanager
    def merger(self) -> Iterator[MergerShell]:
        setup = Setup(str(self.path), LIFE, MergerStart(0, ()), self.schema, RAY_TIMING, "here")
        shell = MergerShell(setup, self.job, self._end)
        shell.start(Book())
        try:
            yield shell
        finally:
            shell.pump.end("the test is over")
            assert self.ended.wait(60)

    def _end(self, reason: str) -> None:
        self.reason = reason
        self.ended.set()

    def rows(self, text: str) -> Frame:
        return Frame.from_elements(self.schema, parse(text, self.schema))


def answer(shell: MergerShell, question: Message) -> Any:
    """Asks until it is answered."""
    for _ in range(ASKS_MAX):
        for data in shell.answer("s", shell.wire.encode([question])):
            for message in shell.wire.decode(data):
                return message
    raise AssertionError(f"no answer to {question}")


def feed(world: World, shell: MergerShell, *texts: str) -> None:
    frames = [Data(SESSION, n, world.rows(text)) for n, text in enumerate(texts, start=1)]
    attach = Attach(SESSION, BEGIN, Frame.empty(world.schema))
    for message in (attach, *frames):
        shell.hear(shell.wire.encode([message]))


def test_what_replicas_say_is_delivered_once_it_is_durable_and_as_a_table(tmp_path: Path) -> None:
    world = World(tmp_path)
    with world.merger() as shell:
        feed(world, shell, "ins((1,5),1,9) stable(3)", "ins((2,6),4,9) stable(5)")
        token, count = Token("m0.0", shell.machine.epoch, 0, BEGIN), 0
        while token.stable < 5:
            delivery = answer(shell, Fetch("s", token))
            assert isinstance(delivery, Delivery)
            token, count = delivery.token, count + len(delivery.frame)
        assert count == 2
        opened = answer(shell, Open("s", 1, 2))
        assert isinstance(opened, Opened)
        assert (len(opened.frame), opened.frame.stable) == (2, 5)
        declined = answer(shell, Fetch("s", Token("m0.0", 1, 99, BEGIN)))
        assert isinstance(declined, Declined)
        assert declined.why == "future"


def test_rows_and_tables_are_read_while_the_disk_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    syncs, may_end = threading.Event(), threading.Event()
    sync = OutputJournal.sync

    def slow(journal: OutputJournal) -> Appended:
        syncs.set()
        may_end.wait(60)
        return sync(journal)

    with world.merger() as shell:
        begin = Token("m0.0", shell.machine.epoch, 0, BEGIN)
        feed(world, shell, "ins((1,5),1,9) stable(3)")
        assert answer(shell, Fetch("s", begin)).token.offset == 1
        monkeypatch.setattr(OutputJournal, "sync", slow)
        try:
            more = Data(SESSION, 2, world.rows("ins((2,6),4,9) stable(5)"))
            shell.hear(shell.wire.encode([more]))
            assert syncs.wait(60)
            assert answer(shell, Fetch("s", begin)).token.offset == 1, "nothing that is not durable"
            assert len(answer(shell, Open("s", 1, 2)).frame) == 1
        finally:
            may_end.set()
        token = answer(shell, Fetch("s", begin._replace(offset=1, stable=3))).token
        assert (token.offset, token.stable) == (2, 5)


def test_a_question_that_is_repeated_as_its_answer_comes_is_answered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that came twice would stand before the next one, whose asker would then wait as for
    one that was lost, and ask that twice.
    """
    monkeypatch.setattr(mailboxes, "ASK_MS", 0)
    world, put, has_come = World(tmp_path), mailboxes.Mailboxes.put, threading.Event()

    def noted(mail: mailboxes.Mailboxes, subscriber: str, letter: bytes) -> None:
        put(mail, subscriber, letter)
        has_come.set()

    monkeypatch.setattr(mailboxes.Mailboxes, "put", noted)
    with world.merger() as shell:
        feed(world, shell, "ins((1,5),1,9) stable(3)")

        def asked(token: Token) -> list[Any]:
            """As a subscriber does, whose calls end at once here."""
            question = shell.wire.encode([Fetch("s", token)])
            has_come.clear()
            if not (letters := shell.answer("s", question)):
                assert has_come.wait(60)
                letters = shell.answer("s", question)
            return [message for data in letters for message in shell.wire.decode(data)]

        token = Token("m0.0", shell.machine.epoch, 0, BEGIN)
        for n in range(2, 6):
            while token.offset < n - 1:
                for delivery in asked(token):
                    assert delivery.after == token.offset, "it was answered before"
                    token = delivery.token
            more = Data(SESSION, n, world.rows(f"ins(({n},6),{n + 2},{n + 9}) stable({n + 3})"))
            shell.hear(shell.wire.encode([more]))


def test_a_large_message_waits_for_small_ones_that_come_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tail of a replica that joins keeps no row of another one waiting; one that overtakes a
    part of its own session waits for it in turn.
    """
    monkeypatch.setattr(shells, "LARGE_BYTES", 5_000)
    world, heard, may_go = World(tmp_path), list[int](), threading.Event()
    with world.merger() as shell:
        on = shell.machine.on

        def noted(event: Any, now: int) -> Any:
            if isinstance(event, Data):
                heard.append(len(event.frame))
            return on(event, now)

        def hold() -> None:
            may_go.wait(60)

        monkeypatch.setattr(shell.machine, "on", noted)
        feed(world, shell)
        shell.pump.do(hold)
        large = world.rows(" ".join(f"ins(({n},5),1,9)" for n in range(500)))
        small = world.rows("ins((500,6),4,9) stable(5)")
        for message in (Data(SESSION, 1, large), Data(SESSION, 2, small)):
            shell.hear(shell.wire.encode([message]))
        may_go.set()
        token = Token("m0.0", shell.machine.epoch, 0, BEGIN)
        while token.offset < 501:
            token = answer(shell, Fetch("s", token)).token
        assert heard == [1, 500]


def test_a_trim_that_fails_is_told_and_the_output_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merger, "TRIM_MS", 1)
    tried, told = threading.Event(), threading.Event()

    def trim(_: OutputRetention) -> None:
        tried.set()
        raise JournalError("a segment is damaged")

    def alarm(_: MergerShell, what: str) -> None:
        if what.startswith("the output is not trimmed: a segment is damaged (m0.0/1.4 on node"):
            told.set()

    monkeypatch.setattr(OutputRetention, "trim", trim)
    monkeypatch.setattr(MergerShell, "_alarm", alarm)
    world = World(tmp_path, retain_bytes=1 << 20)
    with world.merger() as shell:
        assert tried.wait(60)
        assert told.wait(60)
        feed(world, shell, "ins((1,5),1,9) stable(3)")
        begin = Token("m0.0", shell.machine.epoch, 0, BEGIN)
        assert isinstance(answer(shell, Fetch("s", begin)), Delivery)


def test_of_an_output_that_is_kept_whole_nothing_is_trimmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trim(_: OutputRetention) -> None:
        raise AssertionError("there is nothing to be trimmed")

    monkeypatch.setattr(merger, "TRIM_MS", 1)
    monkeypatch.setattr(OutputRetention, "trim", trim)
    world = World(tmp_path)
    with world.merger() as shell:
        feed(world, shell, "ins((1,5),1,9) stable(3)")
        begin = Token("m0.0", shell.machine.epoch, 0, BEGIN)
        assert isinstance(answer(shell, Fetch("s", begin)), Delivery)
    assert world.reason == "the test is over"


def test_a_large_base_is_made_by_a_thread_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_writer, "BASE_ROWS_MAX", 0)
    monkeypatch.setattr(output_journal, "RECORDS_MAX", 1)
    made = threading.Event()
    put_base = OutputJournal.put_base

    def noted(journal: OutputJournal, *args: Any) -> str:
        why_not = put_base(journal, *args)
        if not why_not:
            made.set()
        return why_not

    monkeypatch.setattr(OutputJournal, "put_base", noted)
    world = World(tmp_path)
    with world.merger() as shell:
        feed(world, shell, "ins((1,5),1,9) stable(3)")
        assert made.wait(60)


def test_a_life_whose_output_another_has_taken_over_ends_and_says_where_it_was(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    with world.merger() as shell:
        later = Life("m0.0", Incarnation(1, 5))
        OutputJournal(world.job.output("m0.0"), world.schema, later, "later", lambda: 0)
        feed(world, shell, "ins((1,5),1,9) stable(3)")
        assert world.ended.wait(60)
        assert world.reason.endswith(f"({LIFE} on node here)")
