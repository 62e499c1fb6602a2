"""The client for asyncio says and reads the same."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gapless.client import AsyncConsumer, AsyncProducer, Consumer
from gapless.protocol.elements import INF
from gapless.protocol.errors import Fenced
from tests.sidecar.helpers import PATIENCE_S, SCHEMA, frame_of, sidecar


def test_a_stream_is_pushed_and_read_with_await(tmp_path: Path) -> None:
    async def both(address: str) -> list[int]:
        async def read(numbers: list[int]) -> None:
            async with AsyncConsumer(address, "s", start="earliest") as consumer:
                async for frame in consumer:
                    numbers += frame.payload.column(1).to_pylist()
                assert consumer.token
                assert not consumer.is_reset

        read_by: list[list[int]] = [[] for _ in range(20)]
        readers = [asyncio.create_task(read(numbers)) for numbers in read_by]
        async with AsyncProducer(address, "s", "a", SCHEMA) as a:
            for t in range(1, 51):
                await a.push(frame_of(f"ins((A,{t}),{t},{t + 5}) stable({t})"))
            await a.stable(INF)
            assert await a.flush()
        await asyncio.gather(*readers)
        assert all(numbers == read_by[0] for numbers in read_by)
        return read_by[0]

    with sidecar(tmp_path) as one:
        assert asyncio.run(both(one.address)) == list(range(1, 51))


def test_who_waits_for_a_frame_when_a_consumer_is_closed_is_told_that_none_comes(
    tmp_path: Path,
) -> None:
    async def close_while_waiting(address: str) -> bool:
        async with AsyncConsumer(address, "s", start="earliest") as consumer:
            waits = asyncio.create_task(consumer.next_delivered())
            await asyncio.sleep(0)
            await consumer.close()
            return await waits is None

    with sidecar(tmp_path) as one, ThreadPoolExecutor(1) as pool:
        assert asyncio.run(asyncio.wait_for(close_while_waiting(one.address), PATIENCE_S))
        consumer = Consumer(one.address, "s", start="earliest")
        taken = pool.submit(list, consumer)
        consumer.close()
        assert taken.result(PATIENCE_S) == []


def test_what_ends_a_producer_is_raised_where_it_is_awaited(tmp_path: Path) -> None:
    async def twice(address: str) -> str:
        old = AsyncProducer(address, "s", "a", SCHEMA, incarnation=1)
        await old.push(frame_of("stable(3)"))
        assert await old.flush()
        async with AsyncProducer(address, "s", "a", SCHEMA, incarnation=2) as new:
            await new.push(frame_of("stable(3)"))
            assert await new.flush()
            try:
                await old.wait_durable(INF)
            except Fenced as e:
                return str(e)
        return "nothing"

    with sidecar(tmp_path) as one:
        assert "incarnation" in asyncio.run(twice(one.address))
