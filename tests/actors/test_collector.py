"""A full collection of garbage stops all threads, so it has little to look at in a job."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.actors import host, root_actor
from gapless.actors.collector import leave_out_what_is_there
from gapless.actors.host import Host
from gapless.actors.pair import Pair
from gapless.actors.root_actor import RootActor
from gapless.actors.setup import RAY_TIMING
from gapless.failover.job.files import Where

OBJECTS = 20_000


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """What a test has left out of collections takes part in them again, save what the whole
    run leaves out (tests/conftest.py).
    """
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


class Calls:
    """What a process does when it becomes something, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        for module in (host, root_actor):
            monkeypatch.setattr(module, "leave_out_what_is_there", lambda: self("left out"))
            monkeypatch.setattr(module, "entitle", lambda *_: None)

    def __call__(self, what: str) -> None:
        self.said.append(what)


@pytest.mark.usefixtures("unfrozen")
def test_a_full_collection_looks_at_nothing_that_a_process_begins_with() -> None:
    kept = [[i] for i in range(OBJECTS)]
    leave_out_what_is_there()
    made = [[i] for i in range(100)]
    looked_at = gc.get_objects()
    assert len(looked_at) < OBJECTS / 10, f"{len(looked_at)} objects, besides {len(kept)}"
    assert all(any(each is one for one in looked_at) for each in made), "what is new counts"


def test_a_spare_leaves_out_its_imports_and_a_life_what_it_is_made_of_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)

    class Life:
        """Of whichever kind."""

        def __init__(self, *_: Any) -> None:
            calls("made")

        def start(self, _: Any) -> None:
            calls("started")

    monkeypatch.setattr(host, "MergerShell", Life)
    monkeypatch.setattr(host, "JobDir", lambda _: SimpleNamespace(job=SimpleNamespace()))
    monkeypatch.setattr(Host, "_wait", lambda *_: None)
    monkeypatch.setattr(Host, "about", lambda _: None)
    spare = Host(str(tmp_path))
    assert calls.said == ["left out"]
    record: Any = SimpleNamespace(record=SimpleNamespace(name="job"))
    monkeypatch.setattr(host, "JobDir", lambda _: SimpleNamespace(job=record))
    setup: Any = SimpleNamespace(
        job_dir=str(tmp_path), start=None, life=SimpleNamespace(slot="m0.0")
    )
    book: Any = None
    spare.become(setup, book)
    assert calls.said == ["left out", "made", "left out", "started"]


def test_a_root_leaves_out_its_imports_and_what_it_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)

    def made(*_: Any) -> Any:
        calls("made")
        return SimpleNamespace(wait=lambda: None)

    monkeypatch.setattr(root_actor, "here", lambda: Where("c", "a", "h", 1, ""))
    monkeypatch.setattr(root_actor, "Root", made)
    monkeypatch.setattr(RootActor, "_look", lambda _: "leads")
    actor = RootActor(str(tmp_path), RAY_TIMING, None, Pair("job", "token", 0), "job/root")
    actor._thread.join(10)
    assert calls.said == ["left out", "made", "left out"]
