"""Bounds of a sidecar that no producer comes to by pushing more."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from gapless.protocol.errors import JobError, Misuse
from gapless.sidecar.client import connection as connecting
from gapless.sidecar.client.connection import Credentials, addresses
from gapless.sidecar.definition import Definition
from gapless.sidecar.msgpack_frames import DECIMAL_CHARS_MAX, _read
from gapless.sidecar.server import directory, grpc_server, registry, tls
from gapless.sidecar.server import limits as limits_module
from gapless.sidecar.server.access import SECRET_CHARS_MAX, Access, Grant
from gapless.sidecar.server.directory import Directory
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.refusals import Refusal
from gapless.sidecar.server.registry import Registry
from gapless.sidecar.server.setup import PIECE_BYTES_MIN, StreamRetention
from gapless.sidecar.server.tls import Certificates
from tests.sidecar.helpers import SCHEMA, Caller, attach, said, sidecar

TLS = Path(__file__).parent / "tls"


# -- tokens ---------------------------------------------------------------------------------------


def sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def test_a_token_that_is_too_long_is_refused_and_stands_for_none_that_begins_like_it() -> None:
    longest = "s" * SECRET_CHARS_MAX
    access = Access([Grant("one", sha256(longest))])
    assert access.grant({"authorization": f"Bearer {longest}"}).name == "one"
    with pytest.raises(Refusal, match=f"{SECRET_CHARS_MAX} are the most") as refused:
        access.grant({"authorization": f"Bearer {longest}x"})
    assert refused.value.code == "UNAUTHENTICATED"


def test_a_client_is_told_that_its_token_is_too_long_before_it_calls_anybody() -> None:
    assert Credentials("s" * SECRET_CHARS_MAX).metadata
    with pytest.raises(Misuse, match=f"{SECRET_CHARS_MAX} are the most"):
        Credentials("s" * (SECRET_CHARS_MAX + 1))


# -- the directory --------------------------------------------------------------------------------


def test_a_definition_that_would_not_be_read_back_is_refused_and_takes_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(Definition("s", SCHEMA).document())
    with sidecar(tmp_path) as one, Caller(one.address) as caller:
        monkeypatch.setattr(directory, "DEFINITION_BYTES_MAX", size - 1)
        error = caller.pushed(attach())
        assert (error.code().name, "fewer columns" in error.details()) == ("INVALID_ARGUMENT", True)
        assert Directory(tmp_path).names() == []
        monkeypatch.setattr(directory, "DEFINITION_BYTES_MAX", size)
        caller.push(attach(), said("stable(3)"))
        assert Directory(tmp_path).names() == ["s"]


def test_a_term_that_others_always_take_first_is_given_up_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def taken(_: object, path: str, *__: object) -> None:
        tries.append(path)
        raise FileExistsError

    monkeypatch.setattr(directory, "write_whole", taken)
    with pytest.raises(JobError, match="try again"):
        Directory(tmp_path).next_term("token")
    assert len(tries) == directory.TERM_TRIES_MAX


# -- things that are done at once -----------------------------------------------------------------


def test_a_few_streams_are_opened_at_once_and_one_that_hangs_keeps_one_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "OPENING_MAX", 2)
    opened: list[str] = []
    under_way: set[str] = set()

    async def open_all() -> None:
        again = asyncio.Event()

        async def stream(name: str) -> None:
            under_way.add(name)
            assert len(under_way) <= registry.OPENING_MAX
            await (again.wait() if name == "hangs" else asyncio.sleep(0))
            under_way.discard(name)
            opened.append(name)
            if name == "s3":
                raise Refusal("UNAVAILABLE", "it is damaged")

        names = ["hangs", *(f"s{i}" for i in range(9))]
        one: Any = SimpleNamespace(stream=stream, names=names, is_open=False)
        opening = asyncio.ensure_future(Registry._open_all(one))
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(opened) == 9
        assert not one.is_open
        again.set()
        await opening
        assert one.is_open
        assert sorted(opened) == sorted(names)

    asyncio.run(open_all())


def test_so_many_strangers_are_answered_at_once_and_the_next_one_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_server, "STRANGERS_MAX", 3)
    taken: list[int] = []

    async def answer() -> None:
        may_end = asyncio.Semaphore(0)

        async def refuse(_: int) -> None:
            await may_end.acquire()

        async def request_call() -> int:
            await asyncio.sleep(0)
            taken.append(len(taken))
            return taken[-1]

        monkeypatch.setattr(grpc_server, "_refuse", refuse)
        one: Any = SimpleNamespace(_request_call=request_call)
        answers = asyncio.ensure_future(grpc_server._AnsweringServer._refuse_strangers(one))
        for ended in range(5):
            for _ in range(30):
                await asyncio.sleep(0)
            assert len(taken) == 3 + ended, "one more for each that has ended"
            may_end.release()
        answers.cancel()

    asyncio.run(answer())


# -- what is given --------------------------------------------------------------------------------


def test_more_sidecars_than_a_client_talks_to_are_refused() -> None:
    most = [f"h{i}:7070" for i in range(connecting.SIDECARS_MAX)]
    assert addresses(most) == tuple(most)
    with pytest.raises(Misuse, match=f"1 to {connecting.SIDECARS_MAX}"):
        addresses([*most, "h:7070"])


def test_a_limit_that_is_none_is_refused() -> None:
    assert Limits(streams_max=limits_module.LIMIT_MAX).streams_max == limits_module.LIMIT_MAX
    with pytest.raises(Misuse, match="streams_max"):
        Limits(streams_max=limits_module.LIMIT_MAX + 1)


def test_a_certificate_that_is_far_too_large_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(TLS / "sidecar.pem", tmp_path)
    monkeypatch.setattr(tls, "FILE_BYTES_MAX", 10)
    with pytest.raises(Misuse, match="over 10 bytes"):
        Certificates(str(tmp_path / "sidecar.pem"), str(TLS / "sidecar.key"))


def test_a_decimal_of_too_many_characters_is_none() -> None:
    of = pa.decimal256(76, 2)
    assert _read("0" * DECIMAL_CHARS_MAX, of) == 0
    with pytest.raises(ValueError, match="no decimal"):
        _read("0" * (DECIMAL_CHARS_MAX + 1), of)


def test_segments_of_a_small_retention_have_a_least_size() -> None:
    assert StreamRetention(bytes=1).segment_bytes == PIECE_BYTES_MIN
