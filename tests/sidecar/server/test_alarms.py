"""An alarm of any thread is in the log at once, and told on the loop once its stream lives."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gapless.sidecar.server.alarms import Alarms


def test_an_alarm_of_another_thread_is_told_on_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[str, int]] = []

    async def live() -> None:
        alarms = Alarms("talkers")
        alarms.say("too early to be told")
        alarms.begin(lambda what: told.append((what, threading.get_ident())))
        await asyncio.to_thread(alarms.say, "the disk is full")
        assert told == [("the disk is full", threading.get_ident())]

    asyncio.run(live())
    assert "stream talkers: too early to be told" in caplog.text
    assert "stream talkers: the disk is full" in caplog.text
