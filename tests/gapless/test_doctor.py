"""The doctor: judges against facts that no available machine has, probes against made-up machines.

One test runs the real doctor, with its Spark and its Ray.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.doctor import CHECKS, CannotLook, Check, CheckResult, Verdict, cgroup, exit_code, trial
from gapless.doctor import judges as j
from gapless.doctor.facts import (
    Java,
    Memory,
    OpenFiles,
    RayExposure,
    RayProcess,
    SharedMemory,
    Space,
    Start,
)
from gapless.doctor.probes import autogroups, java, java_major, open_files, spark_start
from gapless.doctor.ray_processes import demands_token, is_reachable, ray_processes
from tests.gapless.command import Gapless

GIB = 2**30

# -- what a check says ----------------------------------------------------------------------------

statuses = st.lists(st.sampled_from(["ok", "hint", "problem", "unknown", "skipped"]))


def verdict(status: Any) -> Verdict:
    return Verdict(status, "fact", None if status in ("ok", "skipped") else "do something")


@given(statuses)
def test_a_problem_outweighs_what_could_not_be_seen_and_that_outweighs_ok(given: list[str]) -> None:
    code = exit_code(CheckResult("any", verdict(status)) for status in given)
    assert code == (1 if "problem" in given else 2 if "unknown" in given else 0)


def test_only_what_is_well_or_told_elsewhere_goes_without_advice() -> None:
    wrong = (
        ("ok", "rest"),
        ("hint", None),
        ("problem", None),
        ("unknown", None),
        ("skipped", "rest"),
    )
    for status, advice in wrong:
        with pytest.raises(ValueError, match="only `ok` and `skipped` go without"):
            Verdict(status, "fact", advice)  # type: ignore[arg-type]  # a str, out of the loop


def test_a_probe_that_cannot_look_says_why_and_how_it_could() -> None:
    def probe() -> None:
        raise CannotLook("it is dark", "bring a light")

    finding = Check("cellar", probe, lambda _: verdict("ok")).look()
    assert finding == CheckResult("cellar", Verdict("unknown", "it is dark", "bring a light"))


@pytest.mark.parametrize("failure", [OSError("disk on fire"), ImportError("no such module")])
def test_a_probe_that_fails_is_a_finding_and_not_the_end(failure: Exception) -> None:
    def probe() -> None:
        raise failure

    found = Check("cellar", probe, lambda _: verdict("ok")).look().verdict
    assert found.status == "unknown"
    assert str(failure) in found.found


def test_each_check_has_a_name_of_its_own() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names) == 12


# -- bounds: on the bound is enough, one below it is not ------------------------------------------


def memory(available: int) -> Verdict:
    return j.judge_memory(Memory(available, 64 * GIB))


def files(hard: int) -> Verdict:
    return j.judge_open_files(OpenFiles(min(1024, hard), hard))


def disk(free: int) -> Verdict:
    return j.judge_disk(Space("/tmp", free, 8 * GIB))  # noqa: S108  # a name, not a file


def large_disk(free: int) -> Verdict:
    return j.judge_disk(Space("/tmp", free, 1000 * GIB))  # noqa: S108  # a name, not a file


def shm(free: int) -> Verdict:
    return j.judge_shared_memory(SharedMemory("/dev/shm", free, 10 * GIB))  # noqa: S108  # the same


def shm_of_a_large_machine(free: int) -> Verdict:
    return j.judge_shared_memory(SharedMemory("/dev/shm", free, 500 * GIB))  # noqa: S108  # the same


@pytest.mark.parametrize(
    ("judge", "bound"),
    [
        (memory, 3 * GIB),
        (j.judge_cores, 2),
        (files, 8192),
        (disk, 2 * GIB),
        (large_disk, 50 * GIB),
        (shm, 3 * GIB),
        (shm_of_a_large_machine, 10**10),
    ],
)
def test_what_reaches_its_bound_is_ok_and_what_is_below_it_is_a_problem(
    judge: Callable[[int], Verdict], bound: int
) -> None:
    assert judge(bound).status == "ok"
    assert judge(bound - 1).status == "problem"
    assert judge(0).status == "problem"


@given(st.sampled_from([memory, disk, shm, files]), st.integers(0, 2**40), st.integers(0, 2**40))
def test_more_of_anything_is_never_worse(
    judge: Callable[[int], Verdict], some: int, more: int
) -> None:
    if judge(some).status == "ok":
        assert judge(some + more).status == "ok"


def test_a_share_of_a_core_is_a_problem_too() -> None:
    assert j.judge_cores(1.5).status == "problem"
    assert j.judge_cores(2.5).status == "ok"


def test_groups_by_session_are_a_hint_that_says_how_to_end_them(tmp_path: Path) -> None:
    switch = tmp_path / "sched_autogroup_enabled"
    assert j.judge_autogroups(autogroups(switch)).status == "ok"  # a system that has none
    switch.write_text("0\n")
    assert j.judge_autogroups(autogroups(switch)).status == "ok"
    switch.write_text("1\n")
    found = j.judge_autogroups(autogroups(switch))
    assert found.status == "hint"
    assert "sched_autogroup_enabled=0" in str(found.advice)


def test_the_hard_limit_of_open_files_counts_as_far_as_ray_raises_the_soft_one() -> None:
    assert j.judge_open_files(OpenFiles(soft=256, hard=sys.maxsize)).status == "ok"
    assert j.judge_open_files(OpenFiles(soft=4096, hard=4096)).status == "problem"


def test_an_old_python_is_a_problem() -> None:
    assert j.judge_python((3, 11, 0)).status == "ok"
    assert j.judge_python((4, 0, 0)).status == "ok"
    assert j.judge_python((3, 10, 14)).status == "problem"


def test_the_twin_works_but_is_reported_with_what_to_install() -> None:
    assert j.judge_kernel("native").status == "ok"
    twin = j.judge_kernel("twin")
    assert twin.status == "problem"
    assert "g++" in str(twin.advice)


# -- java -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', 17),
        ('java version "1.8.0_391"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2"', 11),
        ("Segmentation fault", None),
        ("", None),
    ],
)
def test_the_version_is_read_from_what_java_answers(answer: str, major: int | None) -> None:
    assert java_major(answer) == major


def fake_java(directory: Path, answer: str) -> Path:
    directory.mkdir(parents=True)
    program = directory / "java"
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    program.chmod(0o755)
    return program


def test_java_home_wins_over_the_path_as_it_does_in_spark(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home" / "bin", 'openjdk version "17.0.1"')
    path = fake_java(tmp_path / "path", 'openjdk version "1.8.0_1"')
    environ = {"PATH": str(path.parent)}
    assert java(environ).major == 8
    found = java({**environ, "JAVA_HOME": str(tmp_path / "home")})
    assert (found.path, found.major) == (str(home), 17)
    assert j.judge_java(found).status == "ok"


def test_a_java_home_without_java_is_a_problem_even_if_the_path_has_one(tmp_path: Path) -> None:
    path = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    found = java({"PATH": str(path.parent), "JAVA_HOME": str(tmp_path)})
    assert j.judge_java(found).status == "problem"
    assert "JAVA_HOME" in str(j.judge_java(found).advice)


def test_a_missing_java_is_one_sentence_that_says_what_to_install(tmp_path: Path) -> None:
    missing = j.judge_java(java({"PATH": str(tmp_path)}))
    assert missing.status == "problem"
    assert "openjdk-17-jre-headless" in str(missing.advice)


def test_without_java_spark_is_not_started_and_said_to_be_skipped(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    found = Check("spark starts", lambda: spark_start(environ, 1.0), j.judge_start).look()
    assert found.verdict.status == "skipped"
    assert "needs Java: see above" in found.verdict.found
    assert exit_code([found]) == 0


def test_a_java_that_is_too_old_is_a_problem_and_one_that_says_nothing_is_unknown() -> None:
    assert j.judge_java(Java(None, "/usr/bin/java", 16, "")).status == "problem"
    assert j.judge_java(Java(None, "/usr/bin/java", None, "Segmentation fault")).status == "unknown"


# -- containers -----------------------------------------------------------------------------------


def write(root: Path, **contents: str) -> Path:
    for name, text in contents.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_without_a_container_there_is_no_limit(tmp_path: Path) -> None:
    assert cgroup.core_limit(tmp_path) is None
    assert cgroup.memory_limit(tmp_path) is None


def test_limits_of_version_2(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        cpu_DOT_max="150000 100000",
        memory_DOT_max="1000",
        memory_DOT_current="700",
        memory_DOT_stat="anon 500\ninactive_file 200",
    )
    assert cgroup.core_limit(root) == 1.5
    assert cgroup.memory_limit(root) == cgroup.MemoryLimit(limit_bytes=1000, used_bytes=500)


def test_no_limit_in_version_2(tmp_path: Path) -> None:
    root = write(tmp_path, cpu_DOT_max="max 100000", memory_DOT_max="max", memory_DOT_current="700")
    assert cgroup.core_limit(root) is None
    assert cgroup.memory_limit(root) is None


def test_limits_of_version_1(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        cpu__cpu_DOT_cfs_quota_us="400000",
        cpu__cpu_DOT_cfs_period_us="100000",
        memory__memory_DOT_limit_in_bytes="1000",
        memory__memory_DOT_usage_in_bytes="700",
        memory__memory_DOT_stat="total_inactive_file 100",
    )
    assert cgroup.core_limit(root) == 4
    assert cgroup.memory_limit(root) == cgroup.MemoryLimit(limit_bytes=1000, used_bytes=600)


def test_no_limit_in_version_1(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        cpu__cpu_DOT_cfs_quota_us="-1",
        cpu__cpu_DOT_cfs_period_us="100000",
        memory__memory_DOT_limit_in_bytes="9223372036854771712",
        memory__memory_DOT_usage_in_bytes="700",
    )
    assert cgroup.core_limit(root) is None
    assert cgroup.memory_limit(root) is None


def test_unlimited_open_files_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1024, -1))
    assert open_files() == OpenFiles(1024, sys.maxsize)


# -- ray clusters that others can reach -----------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "reachable"),
    [
        ("127.0.0.1", False),
        ("127.1.2.3", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("0.0.0.0", True),  # noqa: S104  # judged here, bound nowhere
        ("::", True),
        ("192.0.2.2", True),
        ("fe80::1%eth0", True),
        ("::ffff:192.0.2.2", True),
    ],
)
def test_only_loopback_is_out_of_reach(address: str, reachable: bool) -> None:
    assert is_reachable(address) is reachable


@pytest.mark.parametrize(
    ("environ", "demands"),
    [
        ({}, False),
        ({"RAY_AUTH_TOKEN": "abc"}, False),
        ({"RAY_AUTH_MODE": "disabled"}, False),
        ({"RAY_AUTH_MODE": "token"}, True),
        ({"RAY_AUTH_MODE": "TOKEN"}, True),
    ],
)
def test_a_ray_process_demands_a_token_only_where_its_mode_says_so(
    environ: dict[str, str], demands: bool
) -> None:
    assert demands_token(environ) is demands


@dataclass
class FakeProcess:
    """As much of psutil.Process as the probe reads."""

    the_name: str
    listens: tuple[str, ...] = ("::",)
    the_environ: dict[str, str] = field(default_factory=dict)
    failure: Exception | None = None
    pid: int = 7

    def name(self) -> str:
        return self.the_name

    def status(self) -> str:
        return psutil.STATUS_SLEEPING

    def net_connections(self, kind: str) -> list[Any]:
        assert kind == "tcp"
        if self.failure is not None:
            raise self.failure
        listening = [self.socket(ip, psutil.CONN_LISTEN) for ip in self.listens]
        return [*listening, self.socket("192.0.2.2", psutil.CONN_ESTABLISHED)]

    def environ(self) -> dict[str, str]:
        if self.failure is not None:
            raise self.failure
        return self.the_environ

    @staticmethod
    def socket(ip: str, status: str) -> SimpleNamespace:
        return SimpleNamespace(status=status, laddr=SimpleNamespace(ip=ip, port=6379))


def seen(*processes: FakeProcess) -> tuple[RayProcess, ...]:
    return tuple(ray_processes(processes))  # type: ignore[arg-type]  # stands in for psutil's


def exposure(*processes: FakeProcess, address: str | None = None, token: bool = False) -> Verdict:
    return j.judge_ray_exposure(RayExposure(seen(*processes), address, token))


WITH_TOKEN = {"RAY_AUTH_MODE": "token"}
DENIED = psutil.AccessDenied(7)


def test_programs_that_are_not_ray_s_do_not_matter() -> None:
    assert seen(FakeProcess("nginx"), FakeProcess("python")) == ()
    assert exposure(FakeProcess("nginx")).status == "ok"


@pytest.mark.parametrize("name", ["gcs_server", "raylet"])
def test_a_cluster_that_listens_to_all_and_demands_no_token_is_a_problem(name: str) -> None:
    found = exposure(FakeProcess(name))
    assert found.status == "problem"
    assert f"{name} (pid 7, [::]:6379)" in found.found
    assert "RAY_AUTH_MODE=token" in str(found.advice)


def test_a_cluster_that_demands_a_token_or_listens_on_loopback_only_is_ok() -> None:
    assert exposure(FakeProcess("gcs_server", the_environ=WITH_TOKEN)).status == "ok"
    assert exposure(FakeProcess("gcs_server", listens=("127.0.0.1", "::1"))).status == "ok"


def test_one_open_cluster_beside_a_safe_one_is_a_problem() -> None:
    safe = FakeProcess("gcs_server", the_environ=WITH_TOKEN)
    assert exposure(safe, FakeProcess("raylet", pid=8)).status == "problem"


def test_a_cluster_of_another_user_is_unknown_unless_another_one_is_open() -> None:
    hidden = FakeProcess("gcs_server", failure=DENIED)
    assert seen(hidden) == (RayProcess("gcs_server", 7, None, None),)
    assert exposure(hidden).status == "unknown"
    assert exposure(hidden, FakeProcess("raylet")).status == "problem"


def test_a_cluster_that_others_reach_but_whose_mode_is_hidden_is_unknown() -> None:
    hidden = RayProcess("raylet", 7, reachable=("192.0.2.2:6379",), token=None)
    assert j.judge_ray_exposure(RayExposure((hidden,), None, sends_token=False)).status == "unknown"


def test_a_process_that_ends_while_it_is_looked_at_is_none() -> None:
    assert seen(FakeProcess("raylet", failure=psutil.NoSuchProcess(7))) == ()


def test_a_large_cluster_still_fits_a_line() -> None:
    many = [FakeProcess("raylet", pid=pid) for pid in range(100)]
    assert "and 97 more" in exposure(*many).found


@pytest.mark.parametrize(
    "address", ["192.0.2.7:6379", "ray://head.example:10001", "[2001:db8::1]:6379", "head:6379"]
)
def test_joining_a_cluster_over_the_network_without_a_token_is_a_problem(address: str) -> None:
    assert exposure(address=address).status == "problem"
    assert exposure(address=address, token=True).status == "ok"


@pytest.mark.parametrize("address", ["local", "auto", "127.0.0.1:6379", "localhost:6379"])
def test_joining_a_cluster_of_this_machine_is_judged_by_its_processes(address: str) -> None:
    assert exposure(address=address).status == "ok"
    assert exposure(FakeProcess("gcs_server"), address=address).status == "problem"


# -- trials: programs that are started, limited, and leave nothing --------------------------------

SPAWNS = """
import json, os, pathlib, subprocess, sys
wait = [sys.executable, "-c", "import signal; signal.alarm(60); signal.pause()"]
started = [
    subprocess.Popen(wait, env={}),  # known by its session alone
    subprocess.Popen(wait, start_new_session=True),  # known by its environment alone
]
with open(os.environ["PIDS"], "w") as file:
    json.dump([os.getpid(), *(child.pid for child in started)], file)
open("left behind", "w").close()
print("the first line", sys.argv[1], pathlib.Path.cwd(), sep="\\n")
print("all is well\\n")
"""
HANGS = "import signal; print('still there', flush=True); signal.alarm(60); signal.pause()"
FAILS = "print('about to'); raise OSError('no room ' + 'x' * 1000)"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Makes a module of a text, for a trial."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PIDS", str(tmp_path / "pids"))

    def make(text: str) -> str:
        (tmp_path / "program_of_the_trial.py").write_text(text)
        return "program_of_the_trial"

    return make


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that a trial must not touch."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.alarm(60); signal.pause()"],
        start_new_session=True,
    )
    yield process
    process.kill()
    process.wait()


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_trial_ends_all_that_its_program_started_and_nothing_else(
    program: Callable[[str], str], tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    start = trial.try_module(program(SPAWNS), limit_s=60)
    assert (start.exit_code, start.says) == (0, "all is well")
    pids = json.loads((tmp_path / "pids").read_text())
    assert len(pids) == 3
    assert not any(is_running(pid) for pid in pids)
    assert is_running(bystander.pid)
    assert j.judge_start(start).status == "ok"


def test_a_trial_leaves_no_files(
    program: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    trial.try_module(program(SPAWNS), limit_s=60)
    assert list((tmp_path / "temp").iterdir()) == []


def test_a_program_that_never_ends_is_ended_when_its_time_is_over(
    program: Callable[[str], str],
) -> None:
    start = trial.try_module(program(HANGS), limit_s=0.5)
    assert start.timed_out
    found = j.judge_start(start)
    assert found.status == "problem"
    assert "did not finish within" in found.found


def test_a_program_that_fails_is_told_with_its_last_line_cut_to_a_line(
    program: Callable[[str], str],
) -> None:
    start = trial.try_module(program(FAILS), limit_s=60)
    assert start.exit_code == 1
    assert start.says.startswith("OSError: no room xxx")
    found = j.judge_start(start)
    assert found.status == "problem"
    assert len(found.found) < 300
    assert "-m program_of_the_trial" in str(found.advice)


def test_a_trial_that_stands_on_others_says_to_put_those_right_first() -> None:
    start = Start(1, 2.0, 60.0, "no Java", "python -m x", depends=True)
    assert str(j.judge_start(start).advice).startswith("put any problem above right first")


# -- the real one ---------------------------------------------------------------------------------


@pytest.mark.ray
@pytest.mark.spark
def test_the_real_doctor_starts_spark_and_ray_and_leaves_neither(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = f"{os.getpid()}-the-real-doctor"
    monkeypatch.setattr(trial, "token_hex", lambda _: mark)
    findings = {check.name: check.look() for check in CHECKS}
    for name in ("python", "java", "spark starts", "ray starts"):
        assert findings[name].verdict.status == "ok", findings[name]
    assert not any(marked(process, mark) for process in psutil.process_iter())


def marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(trial.MARK) == mark
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def test_help_says_how_long_it_takes(gapless: Gapless) -> None:
    assert "about 15 seconds" in " ".join(gapless("doctor", "--help").out.split())
