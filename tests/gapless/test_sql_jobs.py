"""`gapless run QUERY.sql` under failures: nothing is lost, doubled or contradicted.

The file is read as the command reads it. In the simulator it meets seeded schedules of faults; on
Ray (`make test-cluster`) replicas and mergers are killed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.commands.query_file import read
from gapless.engine.query import Query
from gapless.testing import drill, simulate
from tests.chaos.users import rows

FLOWS = (
    "CREATE TABLE flows (ts TIMESTAMP(3), src VARCHAR, len BIGINT,"
    " WATERMARK FOR ts AS ts - INTERVAL '2' SECOND);\n"
)
JOBS = {
    "landmarks": "SELECT src, count(*) AS n, sum(len) AS bytes [RANGE ALL, SLIDE 2 seconds, WA ts]"
    " FROM flows GROUP BY src",
    "all so far": "SELECT src, count(*) AS n FROM flows GROUP BY src",
    "sessions": "SELECT src, count(*) AS n, window_start, window_end FROM SESSION(TABLE flows"
    " PARTITION BY src, DESCRIPTOR(ts), INTERVAL '1' SECOND) GROUP BY src, window_start,"
    " window_end",
    "ranked": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC NULLS FIRST, src) AS r"
    " FROM (SELECT src, count(*) AS n FROM flows [RANGE TUMBLING 2 seconds] GROUP BY src))"
    " WHERE r <= 2",
}
ON_RAY = ("landmarks", "sessions")
FAULTS = ["kill replica", "kill merger", "kill all replicas"]


def query_of(tmp_path: Path, name: str) -> Query:
    path = tmp_path / "query.sql"
    path.write_text(f"{FLOWS}{JOBS[name]};\n")
    query = read(path).query
    assert isinstance(query, Query)
    return query


@pytest.mark.parametrize("name", JOBS)
def test_a_job_of_a_sql_file_survives_failures(tmp_path: Path, name: str) -> None:
    assert simulate(query_of(tmp_path, name), rows(30), seeds=3).seeds == 3


@pytest.mark.ray
@pytest.mark.cluster
@pytest.mark.parametrize("name", ON_RAY)
def test_a_job_of_a_sql_file_survives_kills_on_ray(tmp_path: Path, name: str) -> None:
    outcome = drill(query_of(tmp_path, name), rows(300), faults=FAULTS)
    assert len(outcome.strikes) == len(FAULTS)
    assert outcome.is_well
