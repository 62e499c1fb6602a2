"""What a subscriber may write for where it begins and whom it reads; what is said of the rest."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.actors import cluster, handle
from gapless.actors.door import Door
from gapless.actors.handle import Job
from gapless.actors.subscriber_start import explained, mergers_of, start_at
from gapless.failover.job.desired import Desired
from gapless.failover.messages import Token
from gapless.failover.subscriber.tokens import encode
from gapless.protocol.errors import JournalError, Misuse, TokenError, Trimmed

TOKENS = {"0": Token("m0.1", 3, 812, 40)}
MAY = 1_714_521_600_000
DESIRED = Desired(2, ("a",), mergers=2, shards=2)


def test_a_subscription_begins_at_a_word_a_token_or_a_time() -> None:
    assert start_at("now", "ms") == "now"
    assert start_at("earliest", "ms") == "earliest"
    assert start_at(TOKENS, "ms") == TOKENS
    assert start_at(encode(TOKENS), "ms") == TOKENS
    assert start_at(7, "ms") == 7
    in_utc = datetime(2024, 5, 1)  # noqa: DTZ001  # without a zone it is UTC
    for written in ("2024-05-01", "2024-05-01T00:00:00Z", "20240501T00", in_utc):
        assert start_at(written, "ms") == MAY
    assert start_at(datetime(2024, 5, 1, tzinfo=UTC), "s") == MAY // 1000


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("soon", 'not a token of this version.*"now", "earliest" or a time'),
        ("begin", '"now", "earliest" or a time'),
        ("2024-13-01", "write it as '2024-05-01'"),
        (encode(TOKENS)[:-2], "was cut or changed"),
        (None, '"now", "earliest", a time, or the token'),
        (True, "write it as"),
        (1.5, "write it as"),
        ([1], "write it as"),
    ],
)
def test_a_start_that_is_no_start_says_what_to_write(wrong: Any, why: str) -> None:
    with pytest.raises((Misuse, TokenError), match=why):
        start_at(wrong, "ms")


def test_mergers_are_named_by_their_indexes() -> None:
    assert mergers_of(DESIRED, None) == {"0": ("m0.0", "m0.1"), "1": ("m1.0", "m1.1")}
    assert mergers_of(DESIRED, [1]) == mergers_of(DESIRED, (1,)) == {"0": ("m0.1",), "1": ("m1.1",)}
    for wrong in (5, 1, [], [2], [-1], ["0"], "0", [True], {0: 1}):
        with pytest.raises(Misuse, match=r"a list of indexes, as in mergers=\[0\]; the job has 2"):
            mergers_of(DESIRED, wrong)  # type: ignore[arg-type]  # they are wrong


def a_job(monkeypatch: pytest.MonkeyPatch) -> Job:
    view: Any = SimpleNamespace(name="talkers", job_dir="/jobs/talkers", schema=None)
    monkeypatch.setattr(cluster, "connection", lambda: "one")
    monkeypatch.setattr(Job, "status", lambda _: view)
    dir_of = SimpleNamespace(settings=SimpleNamespace(timing=None))
    monkeypatch.setattr(handle, "JobDir", lambda _: dir_of)
    return Job(Door("talkers", None))


def test_a_job_is_an_asynchronous_context_that_ends_it_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job, ended = a_job(monkeypatch), []
    monkeypatch.setattr(Job, "is_running", True)
    monkeypatch.setattr(Job, "stop", lambda _, drain: ended.append((drain, threading.get_ident())))

    async def use() -> None:
        async with job as same:
            assert same is job
            assert not ended

    asyncio.run(use())
    [(drain, thread)] = ended
    assert drain is False
    assert thread != threading.get_ident(), "the loop goes on while a job ends"


def test_a_job_says_in_short_which_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert repr(a_job(monkeypatch)) == "Job('talkers', dir='/jobs/talkers')"


def test_of_a_part_that_was_trimmed_a_subscriber_is_told_what_to_do() -> None:
    assert 'subscribe with start="now"' in explained("m0.0", Trimmed("rows 0 to 9 are gone"))
    assert explained("m0.0", JournalError("it is damaged")) == "it is damaged"
