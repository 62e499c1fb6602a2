"""A subscription's program is cancelled, timed out, interrupted and forgotten: nothing is lost."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from gapless.actors import delivery
from gapless.actors import subscription as subscription_module
from gapless.actors.pump import now_ms
from gapless.failover.effects import Tick
from gapless.failover.messages import Fetch, Token
from gapless.failover.subscriber import handover
from gapless.failover.subscriber.tokens import decode, encode
from gapless.protocol.elements import INF
from gapless.protocol.errors import JobError
from gapless.protocol.frame import Frame
from gapless.protocol.text import format
from tests.actors.told import WAIT_S, Told, frame, subscribed
from tests.interrupts import Interrupts, interrupt_the_wait

COUNT = 12


def frames(count: int = COUNT, *, end: bool = True) -> list[Frame]:
    """One row each, and the end."""
    rows = [frame(f"ins(A,{t},{t + 5}) stable({t})") for t in range(1, count + 1)]
    return [*rows, frame("stable(inf)")] if end else rows


def text(given: Frame) -> str:
    return format(given.elements())


def offset(token: str) -> int:
    return decode(token)["0"].offset if token else 0


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Any:
    before = set(threading.enumerate())
    yield
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT_S)
    assert set(threading.enumerate()) <= before


# -- awaited --------------------------------------------------------------------------------------


def test_a_frame_that_comes_after_a_wait_was_given_up_is_given_to_the_next_one() -> None:
    async def read() -> None:
        told = Told(frames())
        with subscribed(told) as subscription:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(subscription), 0.001)
            assert subscription.token == ""
            told.let(len(told.frames))
            got = []
            async for each in subscription:
                got.append(text(each))
                assert offset(subscription.token) == min(len(got), COUNT)
            assert got == [text(each) for each in told.frames]

    asyncio.run(read())


def test_a_task_that_is_cancelled_while_its_frame_arrives_has_it_or_leaves_it() -> None:
    """The frame and the cancellation come in any order, and the token says which it was."""

    async def read() -> None:
        told = Told(frames())
        got: list[str] = []
        with subscribed(told) as subscription:
            for turns in range(40):
                task = asyncio.ensure_future(anext(subscription))
                if turns % 3 == 0:
                    told.let(1)
                for _ in range(turns % 5):
                    await asyncio.sleep(0)
                before = offset(subscription.token)
                task.cancel()
                try:
                    got.append(text(await task))
                except asyncio.CancelledError:
                    assert offset(subscription.token) == before
                except StopAsyncIteration:
                    break
            told.let(len(told.frames))
            got += [text(each) async for each in subscription]
        assert got == [text(each) for each in told.frames]

    asyncio.run(read())


def test_a_hundred_waits_that_were_given_up_leave_no_thread_and_nobody_waiting() -> None:
    async def wait() -> None:
        told = Told(frames())
        with subscribed(told) as subscription:
            threads = set(threading.enumerate())
            waits = [asyncio.ensure_future(anext(subscription)) for _ in range(100)]
            await asyncio.sleep(0)
            assert subscription._delivery.waiters == 100
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            assert subscription._delivery.waiters == 0
            assert set(threading.enumerate()) == threads

    asyncio.run(wait())


def test_several_tasks_that_wait_at_once_get_a_frame_each_and_none_twice() -> None:
    async def read() -> list[str]:
        told = Told(frames())
        with subscribed(told) as subscription:
            waits = [asyncio.ensure_future(anext(subscription)) for _ in range(COUNT)]
            await asyncio.sleep(0)
            told.let(len(told.frames))
            return [text(each) for each in await asyncio.gather(*waits)]

    assert sorted(asyncio.run(read())) == sorted(map(text, frames()[:COUNT]))


def test_a_wait_whose_loop_is_over_takes_nothing() -> None:
    told = Told(frames())
    with subscribed(told) as subscription:

        async def begin_to_wait() -> None:
            task = asyncio.ensure_future(anext(subscription))
            await asyncio.sleep(0)
            assert not task.done()

        asyncio.run(begin_to_wait())
        told.let(len(told.frames))
        assert [text(each) for each in subscription] == [text(each) for each in told.frames]


def test_who_waits_is_told_when_it_is_closed_and_when_it_breaks() -> None:
    async def wait(how: str) -> str:
        told = Told(frames())
        subscription = subscribed(told)
        task = asyncio.ensure_future(anext(subscription))
        await asyncio.sleep(0)
        if how == "closed":
            subscription.close()
        else:
            subscription._feed.pump.end("a test ends it")
        try:
            await asyncio.wait_for(task, WAIT_S)
        except StopAsyncIteration:
            return "end"
        except JobError as e:
            return str(e)
        return "a frame"

    assert asyncio.run(wait("closed")) == "end"
    assert "a test ends it" in asyncio.run(wait("broken"))


# -- called ---------------------------------------------------------------------------------------


def test_a_call_that_times_out_has_taken_nothing() -> None:
    told = Told(frames())
    with subscribed(told) as subscription:
        assert subscription.next(0.001) is None
        assert subscription.next_emit(0) is None
        assert subscription.token == ""
        told.let(len(told.frames))
        assert [text(each) for each in subscription] == [text(each) for each in told.frames]
        with pytest.raises(StopIteration):
            subscription.next(0)


CALLS = {
    "next()": lambda s: s.next(WAIT_S),
    "next_emit()": lambda s: s.next_emit(WAIT_S).frame,
    "for": lambda s: s.__next__(),
}


@pytest.mark.parametrize("how", CALLS)
def test_a_call_that_is_interrupted_at_any_line_has_taken_nothing(how: str) -> None:
    told = Told(frames())
    told.let(len(told.frames))
    interrupts = Interrupts(subscription_module, delivery, handover)
    got: list[str] = []
    struck = 0
    with subscribed(told) as subscription:
        for _ in range(COUNT):
            before = subscription.token
            for result in interrupts.everywhere(lambda: CALLS[how](subscription)):
                if result is KeyboardInterrupt:
                    struck += 1
                    assert subscription.token == before
                else:
                    got.append(text(result))
    assert got == [text(each) for each in told.frames[:COUNT]]
    assert struck >= 10 * COUNT


def test_ctrl_c_is_heard_while_nothing_comes() -> None:
    """Where it waits it is interrupted at once, and what comes later is still there."""
    told = Told(frames())
    with subscribed(told) as subscription:
        interrupt_the_wait(lambda: next(subscription))
        told.let(1)
        assert text(next(subscription)) == text(told.frames[0])


# -- how much waits -------------------------------------------------------------------------------


def test_a_program_that_never_reads_costs_what_may_wait_and_one_answer() -> None:
    rows = " ".join(f"ins(A{i},1,9)" for i in range(500))
    told = Told([frame(rows) for _ in range(200)])
    size = told.frames[0].nbytes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handover.Handover.__init__, "__defaults__", (1000, 10 * size))
        with subscribed(told) as subscription:
            told.let(len(told.frames))
            told.wait_asked(10)
            subscription._feed.pump.call(lambda: None)
            waits = subscription._delivery._handover._waiting
            assert 10 * size <= sum(each.nbytes for each in waits) <= 11 * size
            assert len(told.asked) <= 11
            assert len(list(islice(subscription, 200))) == 200


def test_what_is_asked_again_meanwhile_waits_as_one_question() -> None:
    told = Told(frames(60, end=False))
    with subscribed(told) as subscription:
        told.let(40)
        told.wait_asked(handover.WAITING_MAX)
        feed = subscription._feed
        feed.pump.call(lambda: None)
        asked = len(told.asked)

        def repeat() -> None:
            for t in range(50):
                for effect in feed.pump.machine.on(Tick(), now_ms() + 100_000 * t):
                    feed._send(effect)  # type: ignore[arg-type]  # a question, again

        feed.pump.call(repeat)
        assert len(told.asked) == asked
        assert len(feed._newest) == 1


# -- its end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("deliver", ["changes", "final"])
@pytest.mark.parametrize("slots", [("m0.0",), ("m0.1",), ("m0.0", "m0.1")])
def test_a_subscription_that_begins_with_the_token_of_the_end_ends(
    slots: tuple[str, ...], deliver: str
) -> None:
    end = encode({"0": Token("m0.0", 1, 7, INF)})
    told = Told(frames(), slots)
    with subscribed(told, start=decode(end), deliver=deliver) as subscription:
        with pytest.raises(StopIteration):
            subscription.next(WAIT_S)
        assert told.asked == []

    async def wait() -> None:
        async with subscribed(told, start=decode(end), deliver=deliver) as subscription:
            assert [each async for each in subscription] == []

    asyncio.run(wait())


def test_a_subscription_that_is_forgotten_ends() -> None:
    told = Told(frames())
    subscription = subscribed(told)
    pump = subscription._feed.pump
    told.wait_asked(1)
    del subscription
    gc.collect()
    pump.join(WAIT_S)
    assert pump.ended == "closed"


def test_a_loop_that_is_left_goes_on_behind_what_it_had() -> None:
    told = Told(frames())
    told.let(len(told.frames))
    with subscribed(told) as subscription:
        first = [text(each) for each in islice(subscription, 2)]
        rest = [text(each) for each in subscription]
    assert [*first, *rest] == [text(each) for each in told.frames]


def test_all_subscriptions_end_with_the_program() -> None:
    told = Told(frames())
    subscription = subscribed(told)
    call: Future[None] = Future()
    told.calls.append(call)
    told.wait_asked(1)
    answers = threading.Timer(0, call.set_result, (None,))
    answers.start()
    subscription_module._end_all()  # also waits for what a merger is about to say
    assert (subscription._feed.pump._thread.is_alive(), call.done()) == (False, True)
    subscription.close()


def test_a_subscription_says_in_short_what_it_reads_and_how_far_it_is() -> None:
    told = Told(frames())
    told.let(3)
    with subscribed(told) as subscription:
        assert "before its first frame" in repr(subscription)
        next(subscription)
        assert "of m0.0" in repr(subscription)
        assert "stable 1970-01-01" in subscription._repr_html_()


def test_a_closed_subscription_hands_out_nothing_and_keeps_its_token() -> None:
    told = Told(frames())
    told.let(3)
    subscription = subscribed(told)
    next(subscription)
    token = subscription.token
    subscription.close()
    assert list(subscription) == []
    assert subscription.token == token


def test_a_job_whose_directory_is_not_seen_is_not_taken_for_one_that_is_over(
    tmp_path: Path,
) -> None:
    told = Told(frames())
    with subscribed(told, tmp_path) as subscription:
        told.wait_asked(1)
        subscription._feed.pump.call(told.left)
        told.let(1)
        assert text(next(subscription)) == text(told.frames[0])
        assert all(isinstance(each, Fetch) for each in told.asked)
