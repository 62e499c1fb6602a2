"""What the tests of an output on its disk share."""

from typing import Any

from gapless.failover.merger.effects import Appended
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.merger.output_reader import OutputReader
from gapless.failover.messages import Life, Token
from gapless.journal.disk import Disk
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.failover.mergers import frame, text

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


def life(counter: int) -> Life:
    return Life("m0.0", Incarnation(1, counter))


def journal(disk: Disk, token: str = "t1", **how: Any) -> OutputJournal:
    return OutputJournal(disk, DEFAULT_SCHEMA, life(1), token, lambda: 0, **how)


def say(out: OutputJournal, *frames: str) -> Appended:
    for each in frames:
        out.append(frame(each))
    return out.sync()


def token(offset: int, stable: int = BEGIN) -> Token:
    return Token("m0.0", 1, offset, stable)


def reader(disk: Disk) -> OutputReader:
    return OutputReader(disk, DEFAULT_SCHEMA)


def read(source: OutputReader, at: Token) -> str | None:
    found = source.read(at)
    return None if found is None else text(found)


def events(rows: Frame) -> Tdb:
    table = Tdb(DEFAULT_SCHEMA)
    table.fold(rows)
    return table


def unsettled(table: Tdb) -> Tdb:
    live = Tdb(DEFAULT_SCHEMA) if table.stable == INF else table.since(table.stable)
    live.stable = table.stable
    return live
