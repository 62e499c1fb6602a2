"""The registry: all streams of a sidecar, each opened once, by name.

    name --> definition on disk --> open (reads its journal back) --> a Stream, being turned
                                      all who ask meanwhile wait for the same one

A stream that was lost is opened again for the next caller, after a while. When the directory
itself was taken over by another sidecar nothing is opened any more: this process is to end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from uuid import uuid4

from gapless.failover.job.whole_file import is_name
from gapless.protocol.errors import GaplessError, Misuse
from gapless.sidecar.definition import NAME_CHARS_MAX, Definition
from gapless.sidecar.server.directory import Directory
from gapless.sidecar.server.flight_records import FlightRecords
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.refusals import Refusal
from gapless.sidecar.server.setup import Setup, StreamRetention, process_token
from gapless.sidecar.server.stream import TICK_MS, Stream

THREADS = 4
"""For the disk, shared by all streams: a sync waits for the device and not for a core."""
OPENING_MAX = 4
"""Streams that are opened at once when a sidecar starts."""
REOPEN_S = 1.0
"""Before a stream that was lost is opened again: what was wrong with its disk may pass."""

STOPS = Refusal("UNAVAILABLE", "the sidecar stops: try again, or another one")
"""What the remaining callers get at its end."""

_log = logging.getLogger("gapless.sidecar")


class Registry:
    """All streams. Used on the loop's thread."""

    def __init__(self, path: str | Path, limits: Limits, retention: StreamRetention) -> None:
        """Takes the directory. Raises `Misuse` where another sidecar has it, and `OSError`."""
        self.directory = Directory(path)
        self.directory.lock()
        self.directory.drop_removed()
        token = process_token()
        self.setup = Setup(
            self.directory.name(),
            self.directory.next_term(token),
            limits,
            retention,
            self._lost,
            token,
        )
        self.streams: dict[str, Stream] = {}
        """Those that are open."""
        self.is_draining = False
        self.is_open = False
        """Whether all streams that were there at the start have been tried."""
        self.ended = asyncio.Event()
        """Set once the directory is another's, or all is drained."""
        self._names = set(self.directory.names())
        self._making: dict[str, asyncio.Task[None]] = {}
        self._removing: dict[str, asyncio.Task[None]] = {}
        self._opening: dict[str, asyncio.Task[Stream]] = {}
        self._lost_at: dict[str, float] = {}
        self._pool = ThreadPoolExecutor(THREADS, "sidecar")
        self._records = FlightRecords(
            self.directory.path, token, self.setup.wall_ms, lambda: len(self.streams)
        )
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def name(self) -> str:
        """The sidecar's."""
        return self.setup.slot

    @property
    def names(self) -> list[str]:
        """Of all streams, open or not."""
        return sorted(self._names)

    def start(self) -> None:
        """Begins: ticks, and opens what is there."""
        self._tasks = [
            asyncio.create_task(self._tick(), name="ticks"),
            asyncio.create_task(self._open_all(), name="open"),
        ]

    # -- streams ------------------------------------------------------------------------------

    async def stream(self, name: str) -> Stream:
        """An open stream. Raises `Refusal`."""
        stream = self.streams.get(name)
        if stream is not None:
            return stream
        self.check_open()
        if not is_name(name, NAME_CHARS_MAX):
            raise Refusal("INVALID_ARGUMENT", f"{name!r:.70} is not a name of a stream")
        if name not in self._names:
            raise Refusal(
                "NOT_FOUND",
                f"there is no stream {name}: it begins when a producer first pushes to it",
            )
        task = self._opening.get(name)
        if task is None:
            task = asyncio.create_task(self._open(name), name=f"open {name}")
            self._opening[name] = task
            task.add_done_callback(lambda _: self._opening.pop(name, None))
        return await asyncio.shield(task)

    async def define(
        self,
        definition: Definition,
        check_quota: Callable[[Iterable[str]], None] = lambda _: None,
    ) -> Stream:
        """The stream of this definition, which is made where it is not there, if `check_quota` lets
        one more be beside those that there are. Raises `Refusal`.
        """
        self.check_open()
        name = definition.name
        if name not in self._names:
            making = self._making.get(name)
            if making is None:
                there = self._names | self._making.keys()
                if len(there) >= self.setup.limits.streams_max:
                    raise Refusal(
                        "RESOURCE_EXHAUSTED",
                        f"there are {len(there)} streams: push to one of them, remove one (gapless "
                        "sidecar remove), or raise streams_max",
                    )
                self._check_not_removing(name)
                check_quota(there)
                # It goes on when who asked for it has gone: what is on the disk counts.
                making = asyncio.create_task(self._make(definition), name=f"make {name}")
                self._making[name] = making
                making.add_done_callback(lambda _: self._making.pop(name, None))
            await asyncio.shield(making)
        stream = await self.stream(name)
        stream.definition.check_same(definition)
        return stream

    async def remove(self, name: str) -> None:
        """Removes a stream: its users are told so, and its files go. Raises `Refusal`."""
        self.check_open()
        self._check_not_removing(name)
        if name not in self._names:
            raise Refusal("NOT_FOUND", f"there is no stream {name!r:.70}")
        self._names.discard(name)
        removing = asyncio.create_task(self._remove(name), name=f"remove {name}")
        self._removing[name] = removing
        removing.add_done_callback(lambda _: self._removing.pop(name, None))
        await asyncio.shield(removing)  # it is not half done when who asked has gone

    async def _remove(self, name: str) -> None:
        try:
            opening = self._opening.get(name)
            if opening is not None:
                await asyncio.wait([opening])
            stream = self.streams.get(name)
            if stream is not None:
                stream.end("it was removed", refusal=Refusal("NOT_FOUND", f"{name} was removed"))
                await stream.idle()
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._pool, self.directory.remove, name)
            _log.warning("stream %s was removed", name)
        except OSError as e:
            self._names.update(self.directory.names())
            raise Refusal("UNAVAILABLE", f"stream {name} cannot be removed: {e}") from None
        finally:
            self._lost_at.pop(name, None)

    def _check_not_removing(self, name: str) -> None:
        if name in self._removing:
            raise Refusal("UNAVAILABLE", f"stream {name} is being removed: try again")

    async def _make(self, definition: Definition) -> None:
        loop = asyncio.get_running_loop()
        make = partial(self.directory.define, definition, uuid4().hex)  # each has its own draft
        try:
            await loop.run_in_executor(self._pool, make)
        except FileExistsError:
            pass  # somebody was faster; what it said is compared
        except Misuse as e:
            raise Refusal("INVALID_ARGUMENT", str(e)) from None
        except OSError as e:
            raise Refusal("UNAVAILABLE", f"stream {definition.name} cannot be made: {e}") from None
        self._names.add(definition.name)

    async def _open(self, name: str) -> Stream:
        wait_s = self._lost_at.get(name, -REOPEN_S) + REOPEN_S - time.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        try:
            stream = await asyncio.get_running_loop().run_in_executor(
                self._pool, self._read_back, name
            )
        except (GaplessError, OSError) as e:
            self._lost_at[name] = time.monotonic()
            _log.warning("stream %s does not open: %s", name, e)
            refused = e if isinstance(e, Refusal) else Refusal("UNAVAILABLE", f"stream {name}: {e}")
            raise refused from None
        self.check_open()
        self.streams[name] = stream
        stream.start(self._pool, self._records.of(name, stream.machine))
        return stream

    def _read_back(self, name: str) -> Stream:
        definition = self.directory.definition(name)
        return Stream.opened(definition, self.setup, partial(self.directory.output, name))

    def check_open(self) -> None:
        """Raises `Refusal` where nothing new is begun any more."""
        if self.is_draining:
            raise STOPS
        if self.setup.fenced is not None:
            raise Refusal("UNAVAILABLE", f"another sidecar has the directory: {self.setup.fenced}")

    def check_room(self) -> None:
        """Raises `Refusal` where the mergers hold too much for one more producer."""
        held, limit = self.state_bytes, self.setup.limits.state_bytes_max
        if held > limit:
            raise Refusal(
                "RESOURCE_EXHAUSTED",
                f"the mergers hold {held} bytes, {limit} are the most with which one more producer "
                "is taken: try again later, or raise state_bytes_max",
            )

    @property
    def state_bytes(self) -> int:
        """What all mergers hold."""
        return sum(stream.machine.state_bytes for stream in self.streams.values())

    def _lost(self, name: str, _: str) -> None:
        self.streams.pop(name, None)
        self._lost_at[name] = time.monotonic()
        if self.setup.fenced is not None:
            self.ended.set()

    # -- while it runs ------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_MS / 1000)
            for stream in list(self.streams.values()):
                stream.tick()

    async def _open_all(self) -> None:
        """So that a restart is over before anybody asks."""
        slots = asyncio.Semaphore(OPENING_MAX)

        async def one(name: str) -> None:
            async with slots:
                try:
                    await self.stream(name)
                except Refusal as e:
                    _log.warning("stream %s: %s", name, e)

        await asyncio.gather(*map(one, self.names))
        self.is_open = True

    async def drain(self) -> int:
        """Closes all journals; how many. Producers and new calls were sent away before."""
        self.is_draining = True
        streams = list(self.streams.values())
        await asyncio.gather(*(stream.drain() for stream in streams))
        self.ended.set()
        return len(streams)

    async def close(self) -> None:
        """Ends at once: what is not durable is lost here, and resent by producers."""
        for task in [*self._tasks, *self._opening.values(), *self._making.values()]:
            task.cancel()
        for stream in list(self.streams.values()):
            stream.end("closed", refusal=STOPS)
        self._pool.shutdown(wait=True)
        self._records.close()
        self.directory.unlock()
