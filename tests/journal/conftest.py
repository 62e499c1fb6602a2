"""Disks for tests of the journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.journal.disk import Disk, LocalDisk
from tests.journal.damaged import SAMPLES, Sample
from tests.journal.journals import memory


@pytest.fixture(params=["local", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    """One of each kind."""
    return LocalDisk(tmp_path / "j") if request.param == "local" else memory()


@pytest.fixture(scope="module", params=SAMPLES)
def sample(request: pytest.FixtureRequest) -> Sample:
    """A journal of each kind, to be damaged in a copy."""
    return SAMPLES[request.param](0)._replace(name=request.param)
