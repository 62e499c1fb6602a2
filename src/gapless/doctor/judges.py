"""The judges: from facts about a machine to `ok`, or what is wrong and what to do.

Pure functions, one a check, above them the bounds that they judge by, each with its reason. The
figures for Ray and Spark are those of the versions that we build on (ray 2.60, pyspark 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

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
from gapless.doctor.findings import Verdict

GIB = 2**30

PYTHON_MIN = (3, 11)
"""The oldest Python that the package supports."""

JAVA_MIN = 17
"""Spark 4 is compiled for Java 17."""

MEMORY_AVAILABLE_MIN_BYTES = 3 * GIB
"""A small job beside its tools: Ray with one worker takes 0.75 GB and each further worker 0.12 GB
before it holds any state (measured), Spark's driver a heap of 1 GB by default and more outside."""

CORES_MIN = 2
"""With one core a replica that replays its history starves the heartbeats of all the others, and
healthy ones are suspected."""

AUTOGROUPS_OFF = "sysctl kernel.sched_autogroup_enabled=0"
"""Linux groups processes by session, unless told not to. While a group keeps all cores busy, the
threads of the system that complete its writes may wait for 0.2 s, and with them every row that is
to be durable (measured; docs/decisions/0095)."""

OPEN_FILES_MIN = 8192
"""What Ray recommends; below 4096 it warns of connection errors."""
OPEN_FILES_RAY_RAISES_TO = 65536
"""Ray raises the soft limit of its processes itself: up to the hard one, at most to this."""

DISK_FREE_MIN_BYTES = 2 * GIB
"""Room for Spark's shuffle files and Ray's logs of a small job."""
DISK_FREE_MIN_SHARE = 0.05
"""Ray stops writing objects to a file system that is over 95 % full, however large it is."""

SHM_MEMORY_SHARE = 0.3
"""The share of the memory that Ray's object store takes by default. Where shared memory has less
room than that, Ray puts the store on disk, and every frame between processes goes there."""
SHM_ENOUGH_BYTES = 10**10
"""Ray cuts its object store down to shared memory by itself where that has at least 10 GB."""

RAY_PROCESSES_SHOWN_MAX = 3
"""Ray processes named in one line; a line is to be read."""


def judge_python(version: tuple[int, int, int]) -> Verdict:
    """Whether this interpreter is one that the package supports."""
    found = ".".join(map(str, version))
    if version[:2] < PYTHON_MIN:
        wanted = ".".join(map(str, PYTHON_MIN))
        return Verdict("problem", found, f"install Python {wanted} or later and Gapless in it")
    return Verdict("ok", found)


def judge_kernel(kernel: str) -> Verdict:
    """Whether the compiled kernel is in use; its Python twin is right, but slow."""
    if kernel == "native":
        return Verdict("ok", "native")
    return Verdict(
        "problem",
        f"{kernel}: right, but many times slower than the compiled kernel",
        "unset GAPLESS_KERNEL if it is set; else install a C++ compiler and Python's headers "
        "(Debian, Ubuntu: apt install g++ python3-dev) and then Gapless again: pip install "
        "--force-reinstall --no-cache-dir gapless",
    )


def judge_java(java: Java) -> Verdict:
    """Whether Spark will find a Java that can run it."""
    install = (
        f"install Java {JAVA_MIN} (Debian, Ubuntu: apt install openjdk-{JAVA_MIN}-jre-headless)"
    )
    if java.path is None and java.home is not None:
        return Verdict(
            "problem",
            f"JAVA_HOME is {java.home}, which holds no bin/java",
            f"point JAVA_HOME at a Java {JAVA_MIN} or later, or unset it; or {install}",
        )
    if java.path is None:
        return Verdict("problem", "not found: neither JAVA_HOME nor PATH has one", install)
    if java.major is None:
        return Verdict(
            "unknown",
            f"{java.path} -version says: {java.says}",
            f"{install} and point JAVA_HOME at it",
        )
    if java.major < JAVA_MIN:
        return Verdict(
            "problem",
            f"Java {java.major} ({java.path}); Spark needs {JAVA_MIN}",
            f"{install} and point JAVA_HOME at it",
        )
    return Verdict("ok", f"Java {java.major} ({java.path})")


def judge_start(start: Start) -> Verdict:
    """Whether a program that was started for a trial did its work within its time."""
    if start.timed_out:
        found = f"did not finish within {start.limit_s:.0f} s and was ended; it said: {start.says}"
    elif start.exit_code != 0:
        found = f"failed (exit code {start.exit_code}): {start.says}"
    else:
        return Verdict("ok", f"started, worked and ended in {start.took_s:.1f} s")
    first = "put any problem above right first; then " if start.depends else ""
    return Verdict("problem", found, f"{first}see its whole output: {start.command}")


def judge_memory(memory: Memory) -> Verdict:
    """Whether there is room for a small job."""
    found = f"{_gib(memory.available_bytes)} available of {_gib(memory.total_bytes)}"
    if memory.available_bytes < MEMORY_AVAILABLE_MIN_BYTES:
        return Verdict(
            "problem",
            found,
            f"have {_gib(MEMORY_AVAILABLE_MIN_BYTES)} available: end other programs, or raise the "
            "container's limit",
        )
    return Verdict("ok", found)


def judge_cores(cores: float) -> Verdict:
    """Whether a merger and a replica can run at the same time."""
    if cores < CORES_MIN:
        return Verdict(
            "problem", f"{cores:g}", f"give it {CORES_MIN} or more (docker: --cpus={CORES_MIN})"
        )
    return Verdict("ok", f"{cores:g}")


def judge_autogroups(are_on: bool | None) -> Verdict:
    """Whether the system's own threads get their turns while a job keeps all cores busy."""
    if are_on:
        return Verdict(
            "hint",
            "grouped by session: where a job keeps all cores busy, its output may stand still for "
            "0.2 s when a process starts",
            f"as root: {AUTOGROUPS_OFF} (in /etc/sysctl.d to keep it)",
        )
    return Verdict(
        "ok", "this system has no groups" if are_on is None else "not grouped by session"
    )


def judge_open_files(files: OpenFiles) -> Verdict:
    """Whether Ray's processes may open enough files and connections."""
    found = f"{files.soft} (may be raised to {files.hard})"
    if max(files.soft, min(files.hard, OPEN_FILES_RAY_RAISES_TO)) < OPEN_FILES_MIN:
        return Verdict(
            "problem",
            found,
            f"raise the hard limit to {OPEN_FILES_MIN} or more: `hard nofile` in "
            "/etc/security/limits.conf, LimitNOFILE in systemd, --ulimit nofile in docker",
        )
    return Verdict("ok", found)


def judge_disk(disk: Space) -> Verdict:
    """Whether Spark and Ray have room where they put their temporary files."""
    share = disk.free_bytes / disk.total_bytes
    found = f"{_gib(disk.free_bytes)} ({share:.0%}) free in {disk.path}"
    if disk.free_bytes < DISK_FREE_MIN_BYTES or share < DISK_FREE_MIN_SHARE:
        return Verdict(
            "problem",
            found,
            f"have {_gib(DISK_FREE_MIN_BYTES)} and {DISK_FREE_MIN_SHARE:.0%} free: delete files, "
            "or point TMPDIR at a larger file system",
        )
    return Verdict("ok", found)


def judge_shared_memory(shm: SharedMemory) -> Verdict:
    """Whether Ray's object store fits into shared memory."""
    found = f"{_gib(shm.free_bytes)} free in {shm.path}"
    wanted = min(SHM_MEMORY_SHARE * shm.memory_available_bytes, SHM_ENOUGH_BYTES)
    if shm.free_bytes < wanted:
        return Verdict(
            "problem",
            f"{found}; Ray's object store would go to disk",
            f"have {_gib(wanted)} free: delete files there, or make it larger (docker: --shm-size)",
        )
    return Verdict("ok", found)


def judge_ray_exposure(exposure: RayExposure) -> Verdict:
    """Whether anyone who reaches this machine, or a job's cluster, may run programs in it.

    A Ray process listens on all addresses whatever address its node was given, so the token alone
    keeps strangers out.
    """
    open_ones = [p for p in exposure.processes if p.reachable and p.token is False]
    if open_ones:
        return Verdict(
            "problem",
            f"anyone who reaches this machine may run programs in it: {_names(open_ones)}",
            "stop that cluster (ray stop) and start it again with RAY_AUTH_MODE=token; "
            "`ray get-auth-token --generate` makes the token",
        )
    if exposure.address is not None and _is_remote(exposure.address) and not exposure.sends_token:
        return Verdict(
            "problem",
            f"RAY_ADDRESS is {exposure.address}, and jobs would join that cluster without a token",
            "start that cluster with RAY_AUTH_MODE=token and set the same here, with its token in "
            "RAY_AUTH_TOKEN_PATH; or unset RAY_ADDRESS",
        )
    unseen = [p for p in exposure.processes if p.reachable is None or p.token is None]
    if unseen:
        return Verdict(
            "unknown",
            f"may not look into processes of another user: {_names(unseen)}",
            "run gapless doctor as that user, or as root",
        )
    here = f"{_names(exposure.processes)} demand a token" if exposure.processes else "none here"
    joined = "" if exposure.address is None else f"; RAY_ADDRESS is {exposure.address}"
    return Verdict("ok", here + joined)


def _names(processes: Sequence[RayProcess]) -> str:
    shown = [
        f"{p.name} (pid {p.pid}{''.join(', ' + address for address in p.reachable or ())})"
        for p in processes[:RAY_PROCESSES_SHOWN_MAX]
    ]
    more = len(processes) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _is_remote(address: str) -> bool:
    """Whether RAY_ADDRESS names a cluster that is reached over a network."""
    if address in ("local", "auto"):
        return False
    host = address.removeprefix("ray://").rpartition(":")[0].strip("[]")
    if host == "localhost":
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else f"{size_bytes / 2**20:.0f} MiB"
