"""A job's output in its directory: read to its end, from any token, with nobody there to ask."""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.actors import feed as feed_module
from gapless.actors import pump as pump_module
from gapless.actors.feed import Feed
from gapless.actors.outputs import Output
from gapless.actors.setup import RAY_TIMING
from gapless.actors.subscriber_start import subscriber_of
from gapless.actors.subscription import Subscription
from gapless.engine.plan import Plan
from gapless.failover.effects import Start, Tick
from gapless.failover.job.desired import Desired
from gapless.failover.job.directory import Job
from gapless.failover.job.files import JobRecord, desired_path, encode_desired, write
from gapless.failover.merger import output_reader as output_module
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.messages import Delivery, Fetch, Life, Message, Token
from gapless.failover.subscriber.machine import Subscriber
from gapless.failover.subscriber.tokens import decode, encode
from gapless.failover.table import Received
from gapless.journal.disk import LocalDisk
from gapless.journal.reader import Reader
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Misuse, Trimmed
from gapless.protocol.text import DEFAULT_SCHEMA, format
from tests.actors.told import WAIT_S, Told, frame

SAID = [
    "ins(A,1,5) stable(1)",
    "ins(B,2,9) stable(2)",
    "adj(A,1,5,7) stable(4)",
    "stable(6)",
    "ins(C,8,12) stable(8)",
    "stable(11)",
]
SOURCE = gl.source("rows", {"ts": "int64", "src": "string"}, time="ts")


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Any:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT_S)
    assert set(threading.enumerate()) <= before


def job(path: Path, *, mergers: int = 2, shards: int = 1, insert_only: bool = False) -> Path:
    """A job that nobody runs."""
    record = JobRecord("job", {"rows": str(path / "rows")}, insert_only, "r4")
    desired = Desired(1, ("plan0",), mergers, shards)
    Job.create(LocalDisk(path), "t", record, {"plan0": Plan(SOURCE)}, desired)
    return path


def stop(path: Path) -> None:
    now = Job(LocalDisk(path), "t").desired()
    stopped = Desired(now.replicas, now.plans, now.mergers, now.shards, "stopped")
    write(LocalDisk(path), desired_path(1), encode_desired(stopped, 1), "t")


def say(path: Path, said: Sequence[str], slot: str = "m0.0", life: int = 1, **how: Any) -> None:
    """What a merger puts out, each as one append; sealed with a base after the half of it."""
    disk = LocalDisk(path / Job.out(int(slot[1]), slot))
    made = Life(slot, Incarnation(1, life))
    out = OutputJournal(disk, DEFAULT_SCHEMA, made, f"t{life}", lambda: 0, **how)
    out.recover()
    for i, each in enumerate(said):
        out.append(frame(each))
        out.sync()
        if i == len(said) // 2:
            out.seal(None)


def stored(path: Path, said: Sequence[str] = (*SAID, "stable(inf)")) -> Output:
    """The output of a job that was stopped."""
    job(path)
    say(path, said)
    stop(path)
    return gl.output(path)


def small_frames(patch: pytest.MonkeyPatch, rows: int = 1) -> None:
    patch.setattr(output_module, "Reader", partial(Reader, frame_rows=rows))


def texts(subscription: Subscription) -> list[tuple[str, str]]:
    with subscription:
        return [(format(each.elements()), subscription.token) for each in subscription]


# -- to the end, and on from any place ------------------------------------------------------------


def test_from_each_token_a_stopped_output_goes_on_with_the_very_next_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_frames(monkeypatch)
    output = stored(tmp_path)
    whole = texts(output.subscribe(start="earliest"))
    assert " ".join(text for text, _ in whole) == (
        "ins(A,1,5) stable(1) ins(B,2,9) stable(2) adj(A,1,5,7) stable(4) ins(C,8,12) stable(8) "
        "stable(inf)"
    )
    for i, (_, token) in enumerate(whole):
        assert texts(output.subscribe(start=token)) == whole[i + 1 :]


@pytest.mark.parametrize("deliver", ["changes", "final"])
@pytest.mark.parametrize("mergers", [None, [0], [0, 1]])
def test_of_a_stopped_output_every_subscription_ends_also_where_it_begins_at_the_end(
    tmp_path: Path, deliver: Any, mergers: list[int] | None
) -> None:
    for name, last in (("drained", "stable(inf)"), ("cut off", "stable(11)")):
        path = tmp_path / name
        path.mkdir()
        job(path)
        for slot in ("m0.0", "m0.1"):
            say(path, (*SAID, last), slot)
        stop(path)
        output = gl.output(path)
        got = texts(output.subscribe(deliver, "earliest", mergers=mergers))
        again = texts(output.subscribe(deliver, got[-1][1], mergers=mergers))
        if last == "stable(inf)" or (deliver == "changes" and mergers != [0, 1]):
            assert again == []
        else:  # a time, and not an end: again what may still change, and no event twice
            assert [token for _, token in again] == [got[-1][1]]
        list(output.subscribe(deliver, "now", mergers=mergers))


def test_a_token_of_one_merger_goes_on_in_its_journal_and_one_of_a_time_with_a_reset(
    tmp_path: Path,
) -> None:
    job(tmp_path)
    say(tmp_path, SAID[:3], "m0.0")
    say(tmp_path, (*SAID, "stable(inf)"), "m0.1")
    stop(tmp_path)
    output = gl.output(tmp_path)
    first = texts(output.subscribe(start="earliest", mergers=[0]))[-1][1]
    assert texts(output.subscribe(start=first)) == []  # m0.0 has said no more
    ((rest, end),) = texts(output.subscribe(start="earliest"))  # the one that goes farthest
    assert rest.endswith("stable(inf)")
    assert decode(end)["0"].merger == "m0.1"
    time_of_both = encode({"0": decode(first)["0"]._replace(merger="", offset=0)})
    with output.subscribe(start=time_of_both) as subscription:
        next(subscription)
        assert (subscription.is_reset, subscription.since) == (True, 4)


def test_where_the_tokens_merger_has_lost_it_another_goes_on(tmp_path: Path) -> None:
    job(tmp_path)
    say(tmp_path, SAID, "m0.0")
    say(tmp_path, SAID, "m0.1")
    stop(tmp_path)
    output = gl.output(tmp_path)
    token = texts(output.subscribe(start="earliest", mergers=[0]))[0][1]
    behind = encode({"0": decode(token)["0"]._replace(offset=2, stable=2)})
    for path in (tmp_path / Job.out(0, "m0.0") / "live").iterdir():
        path.unlink()
    for path in (tmp_path / Job.out(0, "m0.0") / "segments").iterdir():
        path.unlink()
    received = Received(DEFAULT_SCHEMA)
    with output.subscribe(start=behind) as subscription:
        for _ in range(2):
            try:
                emit = subscription.next_emit(WAIT_S)
            except StopIteration:
                break
            assert emit is not None
            received.take(emit)
    assert received.stable == 11


def test_a_long_output_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More deliveries than Python nests calls."""
    small_frames(monkeypatch)
    many = " ".join(f"ins(A{i},1,9)" for i in range(1500))
    output = stored(tmp_path, (many, "stable(inf)"))
    assert len(texts(output.subscribe(start="earliest"))) == 1501


def test_what_waits_for_a_program_that_does_not_read_is_not_read_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_frames(monkeypatch)
    many = " ".join(f"ins(A{i},1,9)" for i in range(100))
    output = stored(tmp_path, (many, "stable(inf)"))
    with output.subscribe(start="earliest") as subscription:
        next(subscription)
        for _ in range(5):
            subscription._feed.pump.call(lambda: None)
        assert len(subscription._delivery._handover) <= 9
        assert len(list(subscription)) == 100


def test_a_place_that_is_not_there_is_an_error_that_says_so(tmp_path: Path) -> None:
    output = stored(tmp_path)
    token = decode(texts(output.subscribe(start="earliest"))[-1][1])["0"]
    with pytest.raises((Misuse, Trimmed)):
        list(output.subscribe(start=encode({"0": token._replace(offset=99, stable=3)})))


# -- as it grows ----------------------------------------------------------------------------------


def test_an_output_that_grows_is_followed_without_its_processes_and_ends_with_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "POLL_MS", 1)
    job(tmp_path, mergers=1)
    say(tmp_path, SAID[:2])
    output = gl.output(tmp_path)
    with output.subscribe(start="earliest") as subscription:
        stables = [next(subscription).stable]
        say(tmp_path, SAID[2:4], life=2)
        while stables[-1] != 6:
            stables.append(next(subscription).stable)
        say(tmp_path, SAID[4:], life=3)
        stop(tmp_path)
        stables += [each.stable for each in subscription]
    assert (stables[0], stables[-1]) == (2, 11)


def test_a_merger_that_begins_later_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "POLL_MS", 1)
    job(tmp_path)
    with pytest.raises(Misuse, match="no merger has started"):
        gl.output(tmp_path).schema  # noqa: B018  # it raises
    say(tmp_path, SAID, "m0.1")
    with gl.output(tmp_path).subscribe(start="earliest", mergers=[0]) as subscription:
        assert subscription.next(0.01) is None
        say(tmp_path, SAID[:1], "m0.0")
        assert next(subscription).stable == 1


def test_a_subscription_of_a_job_that_stops_goes_on_in_its_directory(tmp_path: Path) -> None:
    job(tmp_path, mergers=1)
    say(tmp_path, (*SAID, "stable(inf)"))
    told = Told([frame(SAID[0])])
    record = Job(LocalDisk(tmp_path), "t").record
    machine = subscriber_of(
        record, {"0": ("m0.0",)}, DEFAULT_SCHEMA, "changes", "earliest", RAY_TIMING
    )
    feed = Feed(machine, ("m0.0",), DEFAULT_SCHEMA, tmp_path, told)  # type: ignore[arg-type]  # a fake
    with Subscription(feed) as subscription:
        told.let(1)
        got = [format(next(subscription).elements())]
        told.wait_asked(2)
        feed.pump.call(told.left)  # the root is away, and the job is not over
        assert subscription.next(0.01) is None
        stop(tmp_path)
        feed.pump.call(told.left)
        got += [format(each.elements()) for each in subscription]
    assert got[0] == SAID[0]
    assert got[-1].endswith("stable(inf)")


class Asked:
    """The mergers of a job, as a feed asks them: what is asked is noted, and answered by a test."""

    def __init__(self) -> None:
        self.questions: list[Message] = []

    def begin(self, *_: object) -> None:
        """Nobody is called."""

    def ask(self, slot: str, question: Message) -> bool:
        assert slot == "m0.0"
        self.questions.append(question)
        return True


def test_a_merger_that_has_nothing_yet_is_asked_again_at_once_while_its_output_flows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0]
    for module in (feed_module, pump_module):
        monkeypatch.setattr(module, "now_ms", lambda: clock[0])
    mergers = Asked()
    machine = Subscriber("s-test", {"0": ("m0.0",)}, DEFAULT_SCHEMA, start="earliest")
    feed = Feed(machine, ("m0.0",), DEFAULT_SCHEMA, tmp_path, mergers)  # type: ignore[arg-type]  # a fake
    feed.pump.happens(Start())
    feed._answered("m0.0", [])
    assert len(mergers.questions) == 1, "nothing flows yet: the machine repeats what it asked"
    [question] = mergers.questions
    assert isinstance(question, Fetch)
    said = frame(SAID[0])
    token = Token("m0.0", 1, len(said), said.stable or BEGIN)
    feed._answered("m0.0", [Delivery(0, said, token)])
    waits = mergers.questions[-1]
    assert isinstance(waits, Fetch)
    assert waits.token == token
    for clock[0] in range(200, feed_module.FLOWING_MS, 200):
        asked = len(mergers.questions)
        feed._answered("m0.0", [])
        assert mergers.questions[asked:] == [waits]
    clock[0] = feed_module.FLOWING_MS
    asked = len(mergers.questions)
    feed._answered("m0.0", [])
    assert mergers.questions[asked:] == []
    feed.pump.happens(Tick())
    assert mergers.questions[asked:] == [waits]


def test_behind_an_answer_to_an_older_question_the_newest_is_asked_again_at_once_and_once(
    tmp_path: Path,
) -> None:
    """Else an answer that came twice would cost as long as one that is lost."""
    mergers = Asked()
    machine = Subscriber("s-test", {"0": ("m0.0",)}, DEFAULT_SCHEMA, start="earliest")
    feed = Feed(machine, ("m0.0",), DEFAULT_SCHEMA, tmp_path, mergers)  # type: ignore[arg-type]  # a fake
    feed.pump.happens(Start())
    said = frame(SAID[0])
    delivery = Delivery(0, said, Token("m0.0", 1, len(said), said.stable or BEGIN))
    for _ in range(2):
        feed._answered("m0.0", [delivery])
    first, behind, again = mergers.questions
    assert again is behind is not first
    feed._answered("m0.0", [delivery])
    assert len(mergers.questions) == 3, "who answers so is not asked again and again"
    more = frame("ins(Z,11,12)")
    feed._answered("m0.0", [Delivery(len(said), more, Token("m0.0", 1, len(said) + 1, BEGIN))])
    assert len(mergers.questions) == 4
    feed._answered("m0.0", [delivery])
    assert len(mergers.questions) == 5


# -- table and status -----------------------------------------------------------------------------


def rows(table: Any) -> list[Any]:
    return sorted(table.column(0).to_pylist())


@pytest.mark.parametrize("last", ["stable(12)", "stable(20)", "stable(inf)"])
def test_the_table_behind_the_end_is_that_of_the_last_instant(tmp_path: Path, last: str) -> None:
    output = stored(tmp_path, (*SAID, "ins(D,11,12)", last))
    assert rows(output.table()) == ["C", "D"]
    assert rows(output.table(at=6)) == ["A", "B"]
    assert rows(output.table(at=8)) == ["B", "C"]


def test_an_output_that_goes_not_so_far_says_so(tmp_path: Path) -> None:
    output = stored(tmp_path, SAID)
    with pytest.raises(Misuse, match="not stable up to 99"):
        output.table(at=99)


def test_status_says_how_far_each_merger_goes(tmp_path: Path) -> None:
    job(tmp_path)
    say(tmp_path, SAID, "m0.0")
    output = gl.output(tmp_path)
    status = output.status()
    assert (status.name, status.state, status.stable, status.has_ended) == (
        "job",
        "running",
        11,
        False,
    )
    assert [(each.merger, each.rows, each.stable) for each in status.outputs] == [("m0.0", 4, 11)]
    say(tmp_path, (*SAID, "stable(inf)"), "m0.1")
    stop(tmp_path)
    assert (output.status().state, output.status().stable) == ("stopped", INF)
    with pytest.raises(Misuse, match="no job is here"):
        gl.output(tmp_path / "nothing")


# -- left in the middle ---------------------------------------------------------------------------


def test_a_table_of_an_output_that_is_interrupted_leaves_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = stored(tmp_path)
    wanted = rows(output.table(at=6))

    def struck(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Subscription, "next_emit", struck)
        with pytest.raises(KeyboardInterrupt):
            output.table(at=6)
    with monkeypatch.context() as patch:
        patch.setattr("gapless.actors.outputs.last_events", struck)
        with pytest.raises(KeyboardInterrupt):
            output.table()
    assert (rows(output.table(at=6)), rows(output.table())) == (wanted, ["C"])


def test_an_output_that_is_forgotten_while_it_is_followed_ends(tmp_path: Path) -> None:
    job(tmp_path, mergers=1)
    say(tmp_path, SAID[:1])
    subscription = gl.output(tmp_path).subscribe(start="earliest")
    next(subscription)
    pump = subscription._feed.pump
    del subscription
    gc.collect()
    pump.join(WAIT_S)
    assert pump.ended == "closed"
