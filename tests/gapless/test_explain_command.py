"""`gapless explain` and `gapless run --dry-run`: plans in words, and nothing started."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from tests.gapless.command import Gapless

QUERY = """\
import gapless as gl
flows = gl.source("flows", {"ts": "timestamp[ms]", "src": "int32"}, time="ts", lateness="1s")
query = flows.window(range="10s", slide="1s").group_by("src").aggregate(n=gl.count())
"""
PLANS = "plans = {'paned': query, 'wid': gl.Plan(query, implementation='wid')}\n"
OTHER = "plans = [query, flows.window('10s').aggregate(n=gl.count())]\n"


@pytest.fixture
def query(tmp_path: Path) -> Iterator[Path]:
    """A query file, whose module no other test has."""
    path = tmp_path / "explained_in_a_test.py"
    path.write_text(QUERY)
    before = list(sys.path)
    yield path
    sys.modules.pop(path.stem, None)
    sys.path[:] = before


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of its source."""
    path = tmp_path / "flows"
    columns = {"ts": "timestamp[ms]", "src": "int32"}
    with gl.JournalWriter(path, columns, time="ts", key="src", lateness="1s") as writer:
        writer.append(
            pa.record_batch(
                [pa.array([1], pa.timestamp("ms")), pa.array([1], pa.int32())], ["ts", "src"]
            )
        )
    return path


def test_a_plan_is_printed_without_a_journal(gapless: Gapless, query: Path) -> None:
    outcome = gapless("explain", query)
    assert outcome.code == 0, outcome.err
    assert "aggregate" in outcome.out
    assert "window" in outcome.out
    document = gapless("explain", query, "--json").document
    assert document["plans"]["plan0"].rstrip() == outcome.out.rstrip()
    assert document["journals"] == {}


def test_each_of_several_plans_is_printed_under_its_name(gapless: Gapless, query: Path) -> None:
    query.write_text(QUERY + PLANS)
    outcome = gapless("explain", query)
    assert outcome.code == 0, outcome.err
    assert outcome.out.index("plan paned:") < outcome.out.index("plan wid:")


def test_sql_is_explained_too(gapless: Gapless, tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text(
        "CREATE TABLE flows (ts TIMESTAMP(3), src INT, "
        "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND);\n"
        "SELECT src, count(*) AS n FROM flows [RANGE TUMBLING 10 seconds] GROUP BY src;\n"
    )
    outcome = gapless("explain", path)
    assert outcome.code == 0, outcome.err
    assert "aggregate" in outcome.out


def test_a_rehearsal_checks_and_starts_nothing(
    gapless: Gapless, query: Path, journal: Path, tmp_path: Path
) -> None:
    job = tmp_path / "job"
    outcome = gapless("run", query, "--journal", journal, "--dir", job, "--dry-run")
    assert outcome.code == 0, outcome.err
    assert "aggregate" in outcome.out
    assert f"source flows: {journal}" in outcome.out
    assert not job.exists()


def test_a_rehearsal_refuses_what_a_start_would(
    gapless: Gapless, query: Path, journal: Path, tmp_path: Path
) -> None:
    job = tmp_path / "job"

    def refused(*options: object) -> str:
        outcome = gapless("run", query, "--dir", job, "--dry-run", *options)
        assert outcome.code == 2
        assert not outcome.out
        assert not job.exists()
        return outcome.err

    assert "none" in refused("--journal", tmp_path / "none")
    assert "partition" in refused("--journal", journal, "--shards", 7)
    query.write_text(QUERY + OTHER)
    sys.modules.pop(query.stem, None)
    assert "the old plan gives" in refused("--journal", journal)
    outcome = gapless("run", "--resume", job, "--dry-run")
    assert outcome.code == 2
    assert "--dry-run is of a new job" in outcome.err
