"""The probes that look at the machine itself: they bring back facts and judge nothing."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

import psutil

from gapless.doctor import cgroup
from gapless.doctor.facts import Java, Memory, OpenFiles, SharedMemory, Space, Start
from gapless.doctor.findings import CannotLook, Skipped
from gapless.doctor.trial import run, temporary_directory, try_module

JAVA_ANSWER_LIMIT_S = 20.0
"""`java -version` takes 0.1 s; a cold disk or a busy machine may make it seconds."""

AUTOGROUPS = Path("/proc/sys/kernel/sched_autogroup_enabled")
SHM = "/dev/shm"  # noqa: S108 - looked at, never written to


def python_version() -> tuple[int, int, int]:
    """The version of this interpreter."""
    return sys.version_info[:3]


def kernel() -> str:
    """`native`, or the name of what serves in its place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the twin warns that it is slow; our line says it too
        from gapless.kernels import KERNEL
    return KERNEL


def java(environ: Mapping[str, str]) -> Java:
    """The Java that Spark would run: JAVA_HOME's if that is set, else the first on the PATH."""
    home = environ.get("JAVA_HOME") or None
    where = str(Path(home) / "bin") if home else environ.get("PATH", os.defpath)
    path = shutil.which("java", path=where)
    if path is None:
        return Java(home, None, None, "")
    with temporary_directory() as directory:
        ended = run([path, "-version"], directory, JAVA_ANSWER_LIMIT_S)
    answer = ended.output if ended.exit_code is not None else "nothing in time"
    first = next(iter(answer.splitlines()), "")
    return Java(home, path, java_major(answer), first)


def spark_start(environ: Mapping[str, str], limit_s: float) -> Start:
    """Starts a Spark for a trial, if there is a Java that it could run on."""
    if java(environ).path is None:
        raise Skipped("Spark needs Java: see above; what Gapless runs without Spark runs even so")
    return try_module("gapless.doctor.start_spark", limit_s, depends=True)


def java_major(answer: str) -> int | None:
    """17 from what Java 17 answers to `-version`; up to Java 8 the answer begins with `1.`."""
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(match[1]) if match else None


def memory() -> Memory:
    """The machine's memory, or the container's where that is less."""
    machine, limit = psutil.virtual_memory(), cgroup.memory_limit()
    if limit is None:
        return Memory(machine.available, machine.total)
    left = max(0, limit.limit_bytes - limit.used_bytes)
    return Memory(min(machine.available, left), min(machine.total, limit.limit_bytes))


def cores() -> float:
    """The cores that this process may run on, or the container's share where that is less."""
    limit = cgroup.core_limit()
    allowed = len(os.sched_getaffinity(0))
    return allowed if limit is None else min(allowed, limit)


def autogroups(switch: Path = AUTOGROUPS) -> bool | None:
    """Whether Linux groups processes by session; None: this system cannot."""
    try:
        return switch.read_text().strip() != "0"
    except FileNotFoundError:
        return None


def open_files() -> OpenFiles:
    """The limits of this process, which those that it starts inherit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OpenFiles(_limit(soft), _limit(hard))


def _limit(value: int) -> int:
    return sys.maxsize if value == resource.RLIM_INFINITY else value


def temp_disk(environ: Mapping[str, str]) -> Space:
    """Room where Ray and Spark put their temporary files."""
    return _space(environ.get("RAY_TMPDIR") or tempfile.gettempdir())


def shared_memory() -> SharedMemory:
    """Room in shared memory."""
    if not Path(SHM).is_dir():
        raise CannotLook(f"{SHM} is missing", "mount a tmpfs there: Ray keeps its objects in it")
    return SharedMemory(SHM, _space(SHM).free_bytes, memory().available_bytes)


def _space(path: str) -> Space:
    usage = shutil.disk_usage(path)
    return Space(path, usage.free, usage.total)
