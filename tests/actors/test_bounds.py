"""Each bound of the processes of a job is reached, and what it says happens there does."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from gapless.actors import actor_class, host, hosts, local_keeper, post, root
from gapless.actors.book import Book, Entry
from gapless.actors.hosts import Hosts
from gapless.actors.pace import GROWTH_MAX, ROWS_FIRST, SEEN_MAX, Pace
from gapless.actors.pair import Other
from gapless.actors.post import BOX_MESSAGES_MAX, CALLS_MAX, Post
from gapless.actors.reserve import SPARES_PUT_OFF_MAX, Reserve
from gapless.actors.root import ALARMS_MAX, Root
from gapless.actors.wire import Wire
from gapless.failover.job.files import Where
from gapless.failover.messages import Life, SnapshotReply
from gapless.failover.timing import Timing
from gapless.protocol.envelope import Incarnation
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"src": "int32"})
LIFE = Life("r0.1", Incarnation(1, 4))
SAID = SnapshotReply(Life("r0.0", Incarnation(1, 1)), None, "none")


class Busy:
    """An actor's handle whose calls are answered when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[list[Any]] = []
        self.answers: list[Future[None]] = []
        self.hear = self
        monkeypatch.setattr(post, "ray", self)

    def remote(self, data: bytes) -> Any:
        self.calls.append(Wire(SCHEMA).decode(data))
        answer: Future[None] = Future()
        self.answers.append(answer)
        return SimpleNamespace(future=lambda: answer, is_there=answer.done)

    def wait(self, calls: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return [c for c in calls if c.is_there()], [c for c in calls if not c.is_there()]


def test_so_many_calls_are_under_way_and_what_gathers_behind_them_goes_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy, woken = Busy(monkeypatch), list[Any]()
    one = Post(Wire(SCHEMA), woken.append)
    one.take_book(Book((1, 1), {LIFE: Entry(busy, "n1")}))
    for _ in range(CALLS_MAX + 5):
        one.send("r0.1", SAID)
        one.flush()
    assert [len(call) for call in busy.calls] == [1] * CALLS_MAX
    assert not woken
    busy.answers[0].set_result(None)
    assert len(woken) == 1, "however often it was flushed meanwhile"
    woken.pop()()
    one.flush()
    assert [len(call) for call in busy.calls] == [1] * CALLS_MAX + [5]
    assert one.lost == 0


def test_what_a_stopped_process_is_sent_beyond_its_box_is_lost_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = Busy(monkeypatch)
    one = Post(Wire(SCHEMA), lambda _: None)
    one.take_book(Book((1, 1), {LIFE: Entry(busy, "n1")}))
    for _ in range(CALLS_MAX):
        one.send("r0.1", SAID)
        one.flush()
    for _ in range(BOX_MESSAGES_MAX + 3):
        one.send("r0.1", SAID)
        one.flush()
    assert one.lost == 3
    for answer in busy.answers:
        answer.set_result(None)
    one.flush()
    assert len(busy.calls[-1]) == BOX_MESSAGES_MAX


def test_subscribers_that_wait_have_threads_of_their_own_and_keep_no_message_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[str, Any] = {}
    group: dict[str, str] = {}

    def method(*, concurrency_group: str) -> Any:
        def mark(function: Any) -> Any:
            group[function.__name__] = concurrency_group
            return function

        return mark

    def remote(**given: Any) -> Any:
        options.update(given)
        return lambda kind: kind

    monkeypatch.setattr(actor_class, "ray", SimpleNamespace(method=method, remote=remote))
    host.host_class()
    threads = options["concurrency_groups"]
    assert threads[group["ask"]] == host.ASKERS_MAX
    assert [name for name, of in group.items() if of == group["ask"]] == ["ask"]
    assert not group.keys() & {"hear", "meet", "become", "die"}, "those have the default thread"


def test_the_newest_alarms_are_kept_for_people_and_the_log_has_all(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A root that begins says of each checkpoint that it drops; then this test has seen enough."""
    unreadable = {f"c{i}": "damaged" for i in range(ALARMS_MAX + 3)}

    class EnoughError(Exception):
        pass

    def enough(*_: Any, **__: Any) -> None:
        raise EnoughError

    resumed = SimpleNamespace(term=1, unreadable=unreadable, desired=None, checkpoints=())
    settings = SimpleNamespace(checkpoint_ms=1000, spares=0, on_divergence="alarm")
    job = SimpleNamespace(
        record=SimpleNamespace(settings=settings, name="j"),
        resume=lambda *_: resumed,
        drop_checkpoint=lambda _: None,
    )
    at = SimpleNamespace(job=job, functions=None, schema=lambda: SCHEMA)
    context = SimpleNamespace(current_actor=None, get_node_id=lambda: "n1")
    monkeypatch.setattr(root, "JobDir", lambda _: at)
    monkeypatch.setattr(root, "NodeWatch", lambda: SimpleNamespace(names={"n1": "n1"}))
    monkeypatch.setattr(root, "Hosts", lambda *_: None)
    monkeypatch.setattr(root, "ray", SimpleNamespace(get_runtime_context=lambda: context))
    monkeypatch.setattr(root, "Supervisor", enough)
    it = object.__new__(Root)
    other = Other("j/standby", lambda *_: None)
    with caplog.at_level(logging.WARNING, "gapless.actors"), pytest.raises(EnoughError):
        Root.__init__(it, "dir", Timing(), None, Where("cluster", "actor", "host", 1), other)
    assert [alarm.what for alarm in it._alarms] == [
        f"checkpoint c{i} is dropped: damaged" for i in range(3, ALARMS_MAX + 3)
    ]
    assert sum("is dropped" in record.getMessage() for record in caplog.records) == len(unreadable)


class Reserved:
    """A reserve of a job with one node, and what it has made."""

    def __init__(self, standby: Any = None) -> None:
        self.made: list[str] = []
        self.begins = True
        given: Any = SimpleNamespace(later=lambda *_: None)
        self.of = Reserve(
            given, standby, given, "n1", lambda: {"n1": "n1"}, lambda: self.begins, lambda: False
        )
        making: Any = SimpleNamespace(submit_once=lambda node, *_: self.made.append(node))
        self.of._making = making


def test_spares_are_put_off_while_lives_begin_but_not_for_ever() -> None:
    it = Reserved()
    for _ in range(SPARES_PUT_OFF_MAX):
        it.of.make()
    assert not it.made
    it.of.make()
    assert it.made == ["n1"]
    it.of.make()
    assert it.made == ["n1"], "the next ones are put off as these were"
    it.begins = False
    it.of.make()
    assert it.made == ["n1", "n1"]


def test_a_standby_is_kept_from_the_first_spares_on_until_the_root_ends() -> None:
    asked: SimpleQueue[tuple[str, dict[str, str]]] = SimpleQueue()
    it = Reserved(SimpleNamespace(ensure=lambda here, nodes: asked.put((here, nodes))))
    it.begins = False
    it.of.make()
    assert asked.get(timeout=20) == ("n1", {"n1": "n1"})
    it.of.make()
    keepers = [thread for thread in threading.enumerate() if thread.name == "standby"]
    assert len(keepers) == 1
    it.of._ended.set()
    keepers[0].join(20)
    assert not keepers[0].is_alive()
    assert asked.empty(), "one keeps it, and looks rarely"


def test_processes_that_do_not_say_who_they_are_are_asked_so_often_and_not_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[int] = []

    def wait(calls: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        waits.append(len(calls))
        return [], calls

    def kill(*_: Any, **__: Any) -> None:
        raise AssertionError("it may live")

    silent = SimpleNamespace(_actor_id=1, about=SimpleNamespace(remote=object))
    fake = SimpleNamespace(get_actor=lambda *_, **__: silent, wait=wait, kill=kill)
    monkeypatch.setattr(hosts, "ray", fake)
    monkeypatch.setattr(hosts, "host_class", lambda: None)
    monkeypatch.setattr(hosts, "named", lambda _: ["j/host/1", "j/host/2"])
    assert Hosts("j", "dir", 0, None).find() == []
    assert waits == [2] * hosts.TRIES_MAX


def test_a_process_that_cannot_be_killed_is_said_and_not_tried_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    stuck: Any = object()
    monkeypatch.setattr(local_keeper, "marked", lambda _: [stuck])
    monkeypatch.setattr(local_keeper, "tell", lambda *_: None)
    monkeypatch.setattr(local_keeper, "collect", lambda: None)
    monkeypatch.setattr(psutil, "wait_procs", lambda _, timeout: waits.append(timeout))
    assert local_keeper.end("mark/") == [stuck]
    assert len(waits) == local_keeper.SWEEPS_MAX
    assert sum(waits) == pytest.approx(local_keeper.END_WAIT_S)


def test_a_frame_is_never_many_times_larger_than_the_largest_that_was_seen() -> None:
    pace = Pace()
    assert pace.took(ROWS_FIRST, 0.001) <= GROWTH_MAX * ROWS_FIRST


def test_of_a_pace_the_last_frames_alone_are_remembered() -> None:
    pace = Pace()
    for _ in range(3 * SEEN_MAX):
        pace.took(pace.rows, 1.0)
    assert len(pace._seen) == SEEN_MAX
