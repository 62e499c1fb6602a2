"""Emits on their way to a program: each is taken once, in order, by threads and by tasks."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gapless.actors.delivery import EmitQueue
from gapless.failover.messages import Token
from gapless.failover.subscriber.effects import Emit
from gapless.failover.subscriber.handover import WAITING_MAX
from gapless.protocol.frame import Frame
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse

PATIENCE_S = 20.0


def emit(number: int) -> Emit:
    frame = Frame.from_elements(DEFAULT_SCHEMA, parse(f"ins({'ABCDEFGHIJ'[number]},1,9)"))
    return Emit(frame, {"0": Token("m0.0", 1, number, 0)})


async def until_it_waits(queue: EmitQueue) -> None:
    while not queue.waiters:  # noqa: ASYNC110 - the queue itself is what is waited for
        await asyncio.sleep(0)


class World:
    """A queue, and how often it asked for more."""

    def __init__(self, emits: int = 0) -> None:
        self.asked = 0
        self.queue = EmitQueue(self._room)
        for number in range(emits):
            self.queue.put(emit(number))

    def _room(self) -> None:
        self.asked += 1


def test_emits_are_taken_in_order_and_each_once() -> None:
    queue = World(3).queue
    assert [queue.take() for _ in range(3)] == [emit(0), emit(1), emit(2)]
    assert queue.take(timeout_s=0) is None
    queue.validate()


def test_of_the_last_emit_only_the_tokens_are_kept() -> None:
    queue = World(1).queue
    queue.take()
    kept = queue.last.emit
    assert kept is not None
    assert kept.tokens == emit(0).tokens
    assert format(kept.frame.elements()) == ""


def test_what_waits_is_taken_before_the_end_and_then_every_call_ends() -> None:
    queue = World(1).queue
    queue.end(None)
    queue.put(emit(1))  # behind the end
    assert queue.take() == emit(0)
    for _ in range(2):
        with pytest.raises(StopIteration):
            queue.take()


def test_an_end_with_an_error_raises_it_behind_what_waits_and_the_first_counts() -> None:
    queue = World(1).queue
    queue.end(KeyError("first"))
    queue.end(ValueError("second"))
    assert queue.take() == emit(0)
    with pytest.raises(KeyError, match="first"):
        queue.take()


def test_closing_drops_what_waits() -> None:
    queue = World(2).queue
    queue.close()
    with pytest.raises(StopIteration):
        queue.take()


def test_a_waiting_thread_gets_what_is_put_and_hears_the_end() -> None:
    queue = World().queue
    found: list[Emit | None] = []

    def reads() -> None:
        try:
            while True:
                found.append(queue.take(PATIENCE_S))
        except StopIteration:
            found.append(None)

    thread = threading.Thread(target=reads)
    thread.start()
    queue.put(emit(0))
    queue.put(emit(1))
    queue.end(None)
    thread.join(PATIENCE_S)
    assert found == [emit(0), emit(1), None]


# -- room -----------------------------------------------------------------------------------------


def test_more_is_asked_for_once_when_there_is_room_again_and_was_none() -> None:
    world = World(WAITING_MAX)
    assert not world.queue.has_room
    world.queue.take()
    assert world.asked == 1
    world.queue.take()
    assert world.asked == 1, "nobody was told no since"
    assert world.queue.has_room


def test_nobody_is_asked_for_more_who_was_not_told_that_there_is_no_room() -> None:
    world = World(WAITING_MAX)
    world.queue.take()
    assert world.asked == 0


def test_a_call_that_is_interrupted_while_it_makes_room_has_taken_nothing() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    queue = EmitQueue(interrupted)
    for number in range(WAITING_MAX):
        queue.put(emit(number))
    assert not queue.has_room
    with pytest.raises(KeyboardInterrupt):
        queue.take()
    assert queue.last.number == 0
    assert queue.take() == emit(0)
    queue.validate()


# -- tasks ----------------------------------------------------------------------------------------


def test_tasks_take_in_order_and_none_is_the_end() -> None:
    async def reads() -> list[Emit | None]:
        queue = World(2).queue
        queue.end(None)
        return [await queue.take_async() for _ in range(3)]

    assert asyncio.run(reads()) == [emit(0), emit(1), None]


def test_a_waiting_task_is_woken_by_another_thread() -> None:
    async def reads() -> Emit | None:
        queue = World().queue
        task = asyncio.create_task(queue.take_async())
        await until_it_waits(queue)
        thread = threading.Thread(target=queue.put, args=(emit(4),))
        thread.start()
        found = await asyncio.wait_for(task, PATIENCE_S)
        thread.join()
        return found

    assert asyncio.run(reads()) == emit(4)


def test_a_cancelled_task_takes_nothing_and_leaves_nobody_waiting() -> None:
    async def reads() -> Emit | None:
        queue = World().queue
        task = asyncio.create_task(queue.take_async())
        await until_it_waits(queue)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert queue.waiters == 0
        queue.put(emit(0))
        return await queue.take_async()

    assert asyncio.run(reads()) == emit(0)


def test_a_task_raises_what_the_queue_has_ended_with() -> None:
    async def reads() -> None:
        queue = World().queue
        queue.end(KeyError("lost"))
        await queue.take_async()

    with pytest.raises(KeyError, match="lost"):
        asyncio.run(reads())


def test_a_loop_that_is_over_does_not_keep_others_from_being_woken() -> None:
    queue = World().queue

    async def leaves() -> asyncio.Task[Emit | None]:
        task = asyncio.create_task(queue.take_async())
        await until_it_waits(queue)
        return task

    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(leaves())
    wakers = list(queue._wakers)
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    queue._wakers = wakers  # as if the loop had been closed over it
    queue.put(emit(0))
    assert queue.take(timeout_s=0) == emit(0)
