"""Threads: one table may be shared, and long calls let others run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Lock, Thread

import numpy as np
import pyarrow as pa
import pytest

from tests.kernels.conftest import Kernel

ONE = pa.schema([("a", pa.int64())])


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as the interpreter can make them."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def together(calls: list[Callable[[], None]]) -> None:
    """Runs all at once; raises what one of them raised."""
    start = Barrier(len(calls))

    def run(call: Callable[[], None]) -> None:
        start.wait()
        call()

    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(run, call) for call in calls]:
            done.result()


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("rows", [50, 5000])  # below and above the bound of the GIL's release
def test_threads_may_share_a_table(kernel: Kernel, rows: int) -> None:
    table = kernel.KeyTable(ONE)
    turns = 40 if kernel.name == "native" else 4

    def work(thread: int) -> Callable[[], None]:
        def call() -> None:
            keys = pa.record_batch([np.arange(rows) * 4 + thread], schema=ONE)
            for _ in range(turns):
                ids, first_seen = table.intern(keys)
                assert first_seen.all()
                assert table.rows(ids).equals(keys)
                assert (table.find(keys) == ids).all()
                assert table.capacity > 0
                table.release(ids)

        return call

    together([work(thread) for thread in range(4)])
    assert len(table) == 0
    table.validate()


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("rows", [50, 5000])
def test_threads_may_share_chains(kernel: Kernel, rows: int) -> None:
    chains = kernel.Chains()
    turns = 40 if kernel.name == "native" else 4

    def work(thread: int) -> Callable[[], None]:
        def call() -> None:
            stored = np.arange(rows) * 4 + thread
            ids = stored % 1000 * 4 + thread
            for _ in range(turns):
                chains.add(ids, stored)
                assert len(chains.probe(ids)[0]) >= rows
                chains.remove(stored)

        return call

    together([work(thread) for thread in range(4)])
    assert len(chains) == 0
    chains.validate()


def runs_meanwhile(call: Callable[[], object]) -> bool:
    """Whether another thread, which only waits for the GIL, gets to run while `call` is made."""
    gate, ran = Lock(), Event()
    gate.acquire()

    def other() -> None:
        with gate:
            ran.set()

    thread = Thread(target=other)
    thread.start()
    usual = sys.getswitchinterval()
    sys.setswitchinterval(3600)  # the interpreter itself makes nobody give the GIL up
    try:
        gate.release()
        for _ in range(500):  # the other thread may need a while to wake up
            call()
            if ran.is_set():
                return True
        return False
    finally:
        sys.setswitchinterval(usual)
        thread.join()


def test_long_calls_let_other_threads_run_and_short_ones_do_not_pause(native: Kernel) -> None:
    chains = native.Chains()
    rows = np.arange(200_000)
    chains.add(rows, rows)
    assert runs_meanwhile(lambda: chains.probe(rows))
    assert not runs_meanwhile(lambda: chains.probe(rows[:100]))
