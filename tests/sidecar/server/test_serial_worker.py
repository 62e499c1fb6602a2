"""A serial worker does one thing after the other, and nothing once something failed."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from gapless.sidecar.server.serial_worker import SerialWorker


def test_things_are_done_one_at_a_time_in_order_and_answered_on_the_loop() -> None:
    done: list[int] = []
    answers: list[tuple[int, int]] = []
    under_way = 0
    most = 0

    async def live() -> None:
        def work(number: int) -> int:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            done.append(number)
            under_way -= 1
            return number

        with ThreadPoolExecutor(4) as pool:
            worker = SerialWorker(pool, lambda error: done.append(-1))
            for number in range(50):
                worker.do(
                    partial(work, number),
                    lambda made: answers.append((made, threading.get_ident())),
                )
            await worker.idle()
            await asyncio.sleep(0)
        assert answers == [(number, threading.get_ident()) for number in range(50)]

    asyncio.run(live())
    assert (done, most) == (list(range(50)), 1)


def test_after_what_nobody_foresaw_nothing_is_done_any_more() -> None:
    done: list[str] = []
    broken: list[BaseException] = []

    async def live() -> None:
        def fail() -> None:
            raise ValueError("not foreseen")

        with ThreadPoolExecutor(1) as pool:
            worker = SerialWorker(pool, broken.append)
            worker.do(fail, lambda _: done.append("answered"))
            worker.do(lambda: done.append("done"), lambda _: done.append("answered"))
            await worker.idle()
            await asyncio.sleep(0)

    asyncio.run(live())
    assert done == []
    assert [str(error) for error in broken] == ["not foreseen"]


def test_what_waits_when_it_ends_is_not_begun() -> None:
    done: list[int] = []

    async def live() -> None:
        gate = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            worker = SerialWorker(pool, lambda error: done.append(-1))
            worker.do(gate.wait, lambda _: done.append(1))
            worker.do(lambda: done.append(2), lambda _: done.append(3))
            worker.end()
            gate.set()
            await worker.idle()
            await asyncio.sleep(0)

    asyncio.run(live())
    assert done == [1]
