"""The rival's recovery without the rival: what is started ends, and what came is judged rightly."""

from __future__ import annotations

import dataclasses
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.bench import netflow
from gapless.bench.peers import recovery, recovery_stream
from gapless.bench.peers.environments import Environments
from gapless.bench.peers.flink_cluster import CLUSTER, JOB, WORKERS, Cluster, free_ports
from gapless.bench.peers.processes import PROCESSES_MAX, Processes
from gapless.bench.peers.recovery import Came, Recovery, Watch, flink_recovery, judge, lines
from gapless.bench.peers.recovery_stream import BATCH, Answers, answers, events, keys
from gapless.protocol.errors import BadData, Misuse

WAIT = "import threading; threading.Event().wait()"
ENDS_WITHIN_S = 30
"""Only a test that fails waits for so long."""
WAITING = [sys.executable, "-c", WAIT]

# -- what is started, ends ------------------------------------------------------------------------


def ended(pid: int) -> None:
    """Returns when it has ended; its code is left for the one that started it."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt, SystemExit])
def test_leaving_the_block_ends_all_that_was_started_in_it(
    tmp_path: Path, error: type[BaseException] | None
) -> None:
    pids: list[int] = []

    def use() -> None:
        with Processes(tmp_path) as processes:
            pids.extend(processes.start(name, WAITING) for name in "ab")
            assert all(psutil.pid_exists(pid) for pid in pids)
            if error is not None:
                raise error

    if error is None:
        use()
    else:
        with pytest.raises(error):
            use()
    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_process_that_has_ended_by_itself_does_not_keep_the_others_running(
    tmp_path: Path,
) -> None:
    with Processes(tmp_path) as processes:
        ended(processes.start("first", [sys.executable, "-c", ""]))
        second = processes.start("second", WAITING)
    assert not psutil.pid_exists(second)


SAYS_ITS_NUMBER = f"""
import os, sys
pipe = open(sys.argv[1], "w")
print(os.getpid(), file=pipe, flush=True)
{WAIT}
"""
KILLS_ITSELF = f"""
import os, signal, sys
from pathlib import Path
from gapless.bench.peers.processes import Processes
with Processes(Path(sys.argv[1])) as processes:
    told = [sys.executable, "-c", {SAYS_ITS_NUMBER!r}, sys.argv[2]]
    print(processes.start("worker", told), flush=True)
    sys.stdin.readline()  # until the worker has said that it runs
    os.kill(os.getpid(), getattr(signal, sys.argv[3]))
    {WAIT}
"""


@pytest.mark.parametrize("by", ["SIGKILL", "SIGTERM"])
def test_what_was_started_ends_though_its_starter_is_killed(tmp_path: Path, by: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", KILLS_ITSELF, str(tmp_path), str(pipe), by]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        assert starter.stdin is not None
        worker = starter.stdout.readline()
        with pipe.open() as said:
            assert said.readline() == worker
            starter.stdin.write("\n")
            starter.stdin.flush()
            assert starter.wait() == -getattr(signal, by)
            # The end comes when the worker, too, has it open no more.
            came_to_an_end, _, _ = select.select([said], [], [], ENDS_WITHIN_S)
            if not came_to_an_end:
                os.kill(int(worker), signal.SIGKILL)
            assert came_to_an_end


def test_the_number_of_a_process_is_that_of_its_command(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with Processes(tmp_path) as processes:
        pid = processes.start("worker", [sys.executable, "-c", SAYS_ITS_NUMBER, str(pipe)])
        with pipe.open() as said:
            assert int(said.readline()) == pid


def test_a_kill_is_by_name_and_is_not_missed_but_any_other_end_is(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        pids = {name: processes.start(name, WAITING) for name in ("worker-0", "worker-1")}
        processes.check()
        processes.kill("worker-0")
        assert not psutil.pid_exists(pids["worker-0"])
        processes.check()
        failing = [sys.executable, "-c", "import sys; sys.exit('no memory')"]
        ended(processes.start("third", failing))
        with pytest.raises(Misuse, match="third ended by itself with exit code 1:\nno memory"):
            processes.check()
    assert not psutil.pid_exists(pids["worker-1"])


def test_the_number_of_processes_is_bounded_and_each_name_is_used_once(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        for i in range(PROCESSES_MAX):
            processes.start(f"p{i}", WAITING)
        with pytest.raises(Misuse, match="end some before more"):
            processes.start("more", WAITING)
        with pytest.raises(Misuse, match="started before"):
            processes.start("p0", WAITING)


def test_of_a_long_log_the_last_lines_are_told(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text("".join(f"line {i}\n" for i in range(10_000)))
    assert Processes(tmp_path).tail("worker").splitlines()[-1] == "line 9999"
    assert len(Processes(tmp_path).tail("worker").splitlines()) == 15


# -- the cluster ----------------------------------------------------------------------------------

JOB_ID = "f00d"
ANSWERS: dict[str, object] = {
    "/taskmanagers": {"taskmanagers": [{"id": name} for name in WORKERS]},
    f"/jobs/{JOB_ID}": {"state": "RUNNING", "vertices": [{"id": "v0"}, {"id": "v1"}]},
    f"/jobs/{JOB_ID}/vertices/v0": {"subtasks": [{"taskmanager-id": "worker-0"}]},
    f"/jobs/{JOB_ID}/vertices/v1": {
        "subtasks": [{"taskmanager-id": "worker-1"}, {"taskmanager-id": "worker-1"}]
    },
    f"/jobs/{JOB_ID}/checkpoints": {"counts": {"restored": 1}},
    "/jobs/done": {"state": "FINISHED", "vertices": [{"id": "v0"}]},
    "/jobs/done/vertices/v0": {"subtasks": [{"taskmanager-id": "worker-0"}]},
    "/jobs/failed": {"state": "FAILED", "vertices": []},
}


class Answering(BaseHTTPRequestHandler):
    """Answers as Flink does."""

    def do_GET(self) -> None:
        found = ANSWERS.get(self.path)
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Cluster(Processes(tmp_path), server.server_port)
        server.shutdown()
        thread.join()


def test_a_cluster_is_asked_for_its_state_and_for_the_worker_that_runs_most(
    cluster: Cluster,
) -> None:
    assert cluster.ready()
    assert cluster.state(JOB_ID) == "RUNNING"
    assert cluster.busiest(JOB_ID) == "worker-1"
    assert cluster.restored(JOB_ID) == 1
    with pytest.raises(Misuse, match="status 404"):
        cluster.state("other")


def test_a_cluster_that_does_not_listen_is_not_ready(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    assert not Cluster(Processes(tmp_path), port).ready()


def test_the_worker_is_killed_in_time_and_the_end_is_seen(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_ASK_S", 0.0)
    results = tmp_path / "result"
    results.mkdir()
    (results / "part-0").write_text("1000,7,2,300\n")
    watch = Watch(results)
    with cluster.processes as processes:
        pids = {name: processes.start(name, WAITING) for name in ("jobmanager", *WORKERS)}
        recovery._until_finished(cluster, "done", watch, kill_at_s=0.0, limit_s=60.0)
        running = {name for name, pid in pids.items() if psutil.pid_exists(pid)}
        assert running == {"jobmanager", "worker-1"}
        assert watch.first_s <= watch.killed_s < float("inf")
        with pytest.raises(Misuse, match="over before the kill"):
            recovery._until_finished(cluster, "done", Watch(results), 60.0, limit_s=60.0)
        with pytest.raises(Misuse, match="job is FAILED"):
            recovery._until_finished(cluster, "failed", Watch(results), 60.0, limit_s=60.0)
        with pytest.raises(Misuse, match="job is RUNNING after"):
            recovery._until_finished(cluster, JOB_ID, Watch(results), 60.0, limit_s=0.0)


def test_free_ports_are_different_ones() -> None:
    assert len(set(free_ports(20))) == 20


def test_the_configurations_differ_in_nothing_but_detection_and_delay() -> None:
    differing = {
        key
        for told in (CLUSTER, JOB)
        for key in {**told["default"], **told["tuned"]}
        if told["default"].get(key) != told["tuned"].get(key)
    }
    assert differing == {
        "heartbeat.interval",
        "heartbeat.timeout",
        "restart-strategy.fixed-delay.delay",
    }


WORKER = f"""#!{sys.executable}
import os
from pathlib import Path
(Path(os.environ["FLINK_PID_DIR"]) / f"{{os.getpid()}}.pid").touch()
{WAIT}
"""
MANAGER = f"""#!{sys.executable}
import json, os, signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
home = Path(os.environ["FLINK_PID_DIR"])
(home / f"{{os.getpid()}}.pid").touch()

class Answering(BaseHTTPRequestHandler):
    def do_GET(self):
        workers = len(list(home.glob("*.pid"))) - 1
        if workers == 2 and INTERRUPTS:
            os.kill(os.getppid(), signal.SIGINT)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({{"taskmanagers": [{{}}] * workers}}).encode())

port = next(word for word in sys.argv if word.startswith("rest.port=")).partition("=")[2]
HTTPServer(("127.0.0.1", int(port)), Answering).serve_forever()
"""


@pytest.fixture
def flink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment whose Flink starts, and does no more, and where no query can be handed in."""
    monkeypatch.setattr(recovery, "_ASK_S", 0.01)
    home = tmp_path / "flink" / "lib" / "python3.11" / "site-packages" / "pyflink"
    for folder in ("bin", "conf"):
        (home / folder).mkdir(parents=True)
    write_script(home / "bin" / "taskmanager.sh", WORKER)
    write_script(home / "bin" / "jobmanager.sh", MANAGER.replace("INTERRUPTS", "False"))
    python = tmp_path / "flink" / "bin" / "python"
    python.parent.mkdir()
    write_script(python, "#!/bin/sh\necho no such table >&2\nexit 1\n")
    pins = Path(recovery.__file__).parent / "requirements" / "flink.txt"
    shutil.copy(pins, tmp_path / "flink" / "installed.txt")
    return tmp_path


def write_script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def script(root: Path, name: str) -> Path:
    return next(root.glob(f"flink/lib/*/site-packages/pyflink/bin/{name}"))


def measure(root: Path) -> Recovery:
    environments = Environments(root, lambda text: None)
    return flink_recovery(
        environments, rate=1_000, seconds=30, kill_at_s=10, conf="tuned", say=lambda text: None
    )


def started(root: Path) -> list[int]:
    return [int(each.stem) for each in root.glob("out/flink-recovery-tuned/tmp/*.pid")]


def test_a_run_whose_query_is_refused_leaves_nothing_running(flink: Path) -> None:
    with pytest.raises(Misuse, match=r"run_flink_recovery\.py .* exit code 1:\nno such table"):
        measure(flink)
    assert len(started(flink)) == 3
    assert not any(psutil.pid_exists(pid) for pid in started(flink))


def test_a_run_that_is_interrupted_leaves_nothing_running(flink: Path) -> None:
    write_script(script(flink, "jobmanager.sh"), MANAGER.replace("INTERRUPTS", "True"))
    with pytest.raises(KeyboardInterrupt):
        measure(flink)
    assert len(started(flink)) == 3
    assert not any(psutil.pid_exists(pid) for pid in started(flink))


def test_a_cluster_that_ends_while_it_starts_is_told_with_its_log(flink: Path) -> None:
    write_script(script(flink, "taskmanager.sh"), "#!/bin/sh\necho no memory\nexit 3\n")
    with pytest.raises(Misuse, match=r"worker-. ended by itself with exit code 3:\nno memory"):
        measure(flink)


@pytest.mark.parametrize(
    ("rate", "seconds", "kill_at_s", "told"),
    [
        (50_000, 30, 3, "kill_at_s=3"),
        (50_000, 15, 10, "at least 20"),
        (50_000, 3_000, 10, "events"),
        (0, 30, 10, "events"),
        (50_050, 30, 10, "multiple of 200"),
    ],
)
def test_a_run_that_could_show_nothing_is_refused_before_anything_is_started(
    tmp_path: Path, rate: int, seconds: float, kill_at_s: float, told: str
) -> None:
    environments = Environments(tmp_path, print)
    with pytest.raises(Misuse, match=told):
        flink_recovery(
            environments, rate=rate, seconds=seconds, kill_at_s=kill_at_s, conf="tuned", say=print
        )
    assert not list(tmp_path.iterdir())


# -- the events and their answers -----------------------------------------------------------------


def test_differential_the_events_in_sql_are_those_in_numpy() -> None:
    count = 300 * BATCH
    formulas = {
        name: text.replace(" / ", " // ")  # of whole numbers, in DuckDB's words
        for name, text in vars(recovery_stream).items()
        if name.endswith("_SQL")
    }
    events_in_sql = f"""
        WITH numbers AS (SELECT range AS batch FROM range({count // BATCH})),
        ids AS (SELECT {formulas["TS_SQL"]} AS ts, unnest({formulas["IDS_SQL"]}) AS id
                FROM numbers),
        ids_mixed AS (SELECT *, {formulas["MIXED_SQL"]} AS mixed FROM ids),
        draws AS (SELECT *, {formulas["DRAW_SQL"]} AS draw FROM ids_mixed)
        SELECT ts, {formulas["SRC_SQL"]} AS src, {formulas["LEN_SQL"]} AS len
        FROM draws ORDER BY id"""  # noqa: S608 # our own formulas
    relation = duckdb.sql(events_in_sql)
    assert relation is not None
    table = relation.to_arrow_table()
    right = pa.Table.from_batches([events(count)])
    assert table.cast(netflow.FLOWS).equals(right)


def test_the_events_are_like_the_flows_of_the_engines_bench() -> None:
    columns = {name: events(100_000)[name].to_numpy() for name in ("ts", "src", "len")}
    largest = np.maximum.accumulate(columns["ts"])
    behind = largest - columns["ts"]
    assert behind.max() < netflow.FLOW_LATENESS_MS
    assert 0.15 < np.mean(behind > 0) < 0.25
    assert columns["ts"].max() - netflow.START_MS < 100_000 // netflow.FLOW_RATE * 1_000
    assert (columns["src"].min(), columns["src"].max() < netflow.FLOW_KEYS) == (0, True)
    assert 0.1 < np.mean(columns["src"] == 0) < 0.2
    assert (columns["len"].min(), columns["len"].max()) == (40, 1500)


def recomputed(flows: pa.RecordBatch) -> list[list[int]]:
    """W1 from scratch: every event in each of its windows."""
    found: dict[int, list[int]] = {}
    for row in flows.to_pylist():
        last = row["ts"] // netflow.SLIDE_MS * netflow.SLIDE_MS
        for window in range(last, last - netflow.RANGE_MS, -netflow.SLIDE_MS):
            key = int(keys(np.array([window]), np.array([row["src"]]))[0])
            cell = found.setdefault(key, [0, 0])
            cell[0] += 1
            cell[1] += row["len"]
    return [[key, *found[key]] for key in sorted(found)]


ROWS = st.lists(
    st.tuples(st.integers(0, 25_000), st.integers(0, 3), st.integers(40, 1500)),
    min_size=1,
    max_size=30,
)


@settings(max_examples=50, deadline=None)
@given(ROWS)
def test_oracle_answers_over_panes_are_those_over_every_event(
    rows: list[tuple[int, int, int]],
) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    columns[0] = [netflow.START_MS + each for each in columns[0]]
    flows = pa.record_batch(columns, schema=netflow.FLOWS)
    found = answers(flows)
    table = np.stack([found.key, found.count, found.bytes], axis=1)
    assert table.tolist() == recomputed(flows)


# -- what came ------------------------------------------------------------------------------------

RIGHT = Answers(np.arange(40), np.arange(40) + 1, np.arange(40) * 100)


def came(order: list[int], seen_s: list[float]) -> Came:
    at = np.array(order)
    rows = Answers(RIGHT.key[at], RIGHT.count[at], RIGHT.bytes[at])
    return Came(rows, np.array(seen_s, dtype=np.float64))


def second_by_second(outage_s: float) -> list[float]:
    """A row a second, with the kill after the twentieth."""
    return [float(i) if i < 20 else i + outage_s for i in range(40)]


def judged(what: Came, killed_s: float = 19.5) -> Recovery:
    return judge(RIGHT, what, killed_s, rate=50_000, conf="tuned")


def test_the_silence_around_the_kill_is_the_pause_and_the_usual_one_is_taken_off() -> None:
    found = judged(came(list(range(40)), second_by_second(outage_s=6.0)))
    assert found == Recovery("tuned", 50_000, 7.0, 1.0, lost=0, duplicated=0, results=40)
    assert found.extra_s == 6.0


def test_a_stall_while_it_warms_up_is_not_what_is_usual() -> None:
    times = [each + (3.0 if i > 2 else 0.0) for i, each in enumerate(second_by_second(6.0))]
    assert judged(came(list(range(40)), times), killed_s=22.5).undisturbed_s == 1.0


def test_rows_that_never_came_are_lost() -> None:
    kept = [i for i in range(40) if i not in (20, 25)]
    times = second_by_second(6.0)
    found = judged(came(kept, [times[i] for i in kept]))
    assert (found.lost, found.duplicated, found.results) == (2, 0, 38)


def test_rows_that_came_twice_are_duplicated_and_their_return_ends_no_silence() -> None:
    times = second_by_second(6.0)
    order = [*range(20), 18, 19, *range(20, 40)]
    found = judged(came(order, [*times[:20], 22.0, 22.0, *times[20:]]))
    assert (found.lost, found.duplicated, found.results) == (0, 2, 42)
    assert found.pause_s == 7.0  # not 4.0, from the return of 19 on


@pytest.mark.parametrize("column", ["key", "count", "bytes"])
def test_a_row_that_is_no_right_answer_is_an_error_and_not_a_figure(column: str) -> None:
    what = came(list(range(40)), second_by_second(6.0))
    values = getattr(what.rows, column).copy()
    values[13] += 1_000
    rows = dataclasses.replace(what.rows, **{column: values})
    with pytest.raises(BadData, match="1 of 40 rows are wrong"):
        judged(dataclasses.replace(what, rows=rows))


@pytest.mark.parametrize("killed_s", [3.0, 100.0, float("inf")])
def test_a_kill_before_which_or_after_which_nothing_came_shows_nothing(killed_s: float) -> None:
    with pytest.raises(BadData, match="both are needed"):
        judged(came(list(range(40)), second_by_second(6.0)), killed_s)


def test_files_count_from_when_they_are_committed_and_are_read_in_that_order(
    tmp_path: Path,
) -> None:
    watch = Watch(tmp_path)
    assert watch.first_s == float("inf")
    (tmp_path / ".part-1.inprogress").write_text("9000,9,9,9\n")
    watch.look(1.0)
    assert watch.seen_s == {}
    (tmp_path / "part-1").write_text("1000,7,2,300\n2000,8,1,40\n")
    watch.look(2.0)
    (tmp_path / "part-0").write_text("3000,0,1,50\n")
    watch.look(3.0)
    watch.look(4.0)
    assert watch.first_s == 2.0
    found = watch.read()
    assert found.rows.key.tolist() == [10_007, 20_008, 30_000]
    assert found.rows.count.tolist() == [2, 1, 1]
    assert found.rows.bytes.tolist() == [300, 40, 50]
    assert found.seen_s.tolist() == [2.0, 2.0, 3.0]


def test_a_run_without_results_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="no results came"):
        Watch(tmp_path).read()


def test_lines_say_all_figures_of_each_configuration_under_names_of_their_own() -> None:
    one = Recovery("tuned", 50_000, 2.5, 1.0, lost=0, duplicated=3, results=40)
    rows = list(lines([one, dataclasses.replace(one, conf="default", pause_s=20.0)]))
    assert len({row.name for row in rows}) == len(rows) == 10
    assert [row.value for row in rows[:5]] == [2.5, 1.0, 1.5, 0.0, 3.0]
    assert all("50,000 events/s" in row.name for row in rows)
    assert rows[5].name == "W1 at 50,000 events/s, flink default, worker killed: pause"
