"""The keeper of local nodes: the process that owns a cluster's processes, so that all of them end.

    the user of LocalNodes == pipe ==> keeper --> n1: gcs_server, raylet, agents --> workers
                                               --> n2:             raylet, agents --> workers

It starts nodes and kills them as it is told, a JSON document a line. When the pipe ends, be it that
its owner has closed it or was killed, the keeper kills every process of every node and removes the
cluster's directory. Should the keeper itself be killed, the kernel kills what it has started.

Processes are told by a mark in their environment, which workers inherit. Ray's agents rename
themselves, which overwrites the start of their environment: where a mark was, they count as what
has started them. And as the keeper adopts orphans it also collects those whose parents have died,
so that no zombie is left, and at the end ends every process that has neither mark nor parent.

`python -m gapless.actors.local_keeper DIR MARK` speaks on its standard input and output.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from gapless.actors.namespaces import inside

MARK = "GAPLESS_LOCAL_NODE"
"""In the environment of each process: MARK/n2, of which cluster and node it is."""
SWEEPS_MAX = 20
"""Looks for survivors: each finds what those before it had not yet seen being started."""
END_WAIT_S = 5.0
"""How long a killed process may take to be gone, even on a machine that is swapping."""
REGISTER_S = 60
"""How long a node may take to be known to its cluster."""
GCS_DIR = "gcs"
"""In the cluster's directory: where a persistent GCS has its state."""
COLLECT_S = 0.5
"""Between two looks for orphans that have ended."""
_SET_CHILD_SUBREAPER = 36  # prctl(2)


def marked(mark: str) -> list[psutil.Process]:
    """The processes that carry a mark, of one node (`MARK/n2`) or all (`MARK/`); no zombies."""
    parents: dict[int, int] = {}
    marks: dict[int, str | None] = {}
    for process in psutil.process_iter():
        try:
            parents[process.pid], marks[process.pid] = process.ppid(), _mark_of(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # it has ended meanwhile, or is somebody else's
    found = []
    for pid in marks:
        named = pid
        while marks.get(named, "") is None:
            named = parents[named]
        try:
            if _is(marks.get(named) or "", mark) and not _has_ended(process := psutil.Process(pid)):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def _mark_of(process: psutil.Process) -> str | None:
    """Empty where it has none; None where it cannot be told, as its name is written over it."""
    value = process.environ().get(MARK)
    return value if value is not None else None if _is_overwritten(process.pid) else ""


def _is_overwritten(pid: int) -> bool:
    """Whether an environment does not begin with a variable."""
    try:
        with Path(f"/proc/{pid}/environ").open("rb") as environ:
            return environ.read(1) == b"\0"
    except OSError:
        return False  # it has ended, or is on a system where nothing is written over


def called(mark: str, kind: str) -> list[psutil.Process]:
    """Of the processes that carry a mark those of one program: "raylet", say."""
    found = []
    for process in marked(mark):
        try:
            if process.name() == kind:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def _is(value: str, mark: str) -> bool:
    return value.startswith(mark) if mark.endswith("/") else value == mark


def _has_ended(process: psutil.Process) -> bool:
    return bool(process.status() == psutil.STATUS_ZOMBIE)


def tell(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Sends a signal to each; ended processes need none."""
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def end(mark: str, kind: str | None = None) -> list[psutil.Process]:
    """Kills all processes that carry a mark, or those of one program; returns which are left."""

    def look() -> list[psutil.Process]:
        return marked(mark) if kind is None else called(mark, kind)

    for _ in range(SWEEPS_MAX):
        found = look()
        if not found:
            return []
        tell(found, signal.SIGKILL)
        psutil.wait_procs(found, timeout=END_WAIT_S / SWEEPS_MAX)
        collect()
    return look()


def collect() -> None:
    """Takes note of children, and of orphans that became ours, that have ended."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


class Keeper:
    """The nodes of one cluster. Only `main` makes one."""

    def __init__(self, directory: str, mark: str) -> None:
        self._dir = directory
        self._mark = mark
        self._address: str | None = None
        self._head: Any = None
        self._head_namespace: str | None = None

    def do(self, order: dict[str, Any]) -> dict[str, Any]:
        """Does what one document says; the answer."""
        if order["do"] == "start":
            return self._start(**{name: value for name, value in order.items() if name != "do"})
        if order["do"] == "restart gcs_server of":
            return self._restart_gcs(order["name"])
        left = end(f"{self._mark}/{order['name']}", order["kind"])
        return {"left": [process.pid for process in left]}

    def _start(
        self,
        *,
        name: str,
        num_cpus: int,
        object_store_bytes: int,
        persistent: bool,
        ip: str | None,
        namespace: str | None,
    ) -> dict[str, Any]:
        """Starts a node; the first is the head. In this, the main thread: what Ray starts ends with
        the thread that has started it. `ip`, `namespace`: where, if not in this machine's network.
        """
        from ray._private import services
        from ray._private.node import Node
        from ray._private.parameter import RayParams

        from gapless.actors.cluster import HEALTH

        os.environ[MARK] = f"{self._mark}/{name}"
        is_head = self._address is None
        settings: dict[str, Any] = {  # some of them Ray annotates wrongly
            "node_name": name,
            "node_ip_address": ip,
            "gcs_address": self._address,
            "redis_address": self._address,
            "num_cpus": num_cpus,
            "num_gpus": 0,
            "object_store_memory": object_store_bytes,
            "temp_dir": self._dir,
            "min_worker_port": 0,
            "max_worker_port": 0,
            "include_dashboard": False,
            "include_log_monitor": False,
            "no_monitor": True,
            "dashboard_agent_listen_port": 0,
            "_system_config": self._system_config(HEALTH, persistent) if is_head else None,
        }
        with inside(namespace):
            node = Node(RayParams(**settings), head=is_head, shutdown_at_exit=False)
        if is_head:
            self._head, self._head_namespace = node, namespace
        self._address = node.gcs_address
        services.wait_for_node(node.gcs_address, node.plasma_store_socket_name, REGISTER_S)
        return {"id": node.node_id, "address": node.gcs_address}

    def _system_config(self, health: Mapping[str, Any], persistent: bool) -> dict[str, Any]:
        """Of the whole cluster. `persistent`: what its GCS knows outlives the GCS."""
        if not persistent:
            return dict(health)
        return {**health, "gcs_storage": "rocksdb", "gcs_storage_path": f"{self._dir}/{GCS_DIR}"}

    def _restart_gcs(self, name: str) -> dict[str, Any]:
        """Starts the GCS again, which was killed: at its port, of its session, from its storage."""
        os.environ[MARK] = f"{self._mark}/{name}"
        head = self._head
        head.kill_gcs_server(check_alive=False)  # it is dead; Ray takes note of it
        with inside(self._head_namespace):
            head.start_gcs_server()
            head.get_gcs_client()  # answers
        return {}

    def close(self) -> None:
        """Kills everything and removes the directory."""
        end(f"{self._mark}/")
        for _ in range(SWEEPS_MAX):
            left = psutil.Process().children(recursive=True)
            if not left:
                break
            tell(left, signal.SIGKILL)
            psutil.wait_procs(left, timeout=END_WAIT_S / SWEEPS_MAX)
            collect()
        for _ in range(SWEEPS_MAX):
            shutil.rmtree(self._dir, ignore_errors=True)
            if not Path(self._dir).exists():
                return
            time.sleep(END_WAIT_S / SWEEPS_MAX)


def main(directory: str, mark: str) -> None:
    """Obeys until the pipe ends; then nothing is left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a person's Ctrl-C is for the owner
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever Ray prints is no answer
    keeper = Keeper(directory, mark)
    try:
        while (line := _next_line()) is not None:
            try:
                answer = keeper.do(json.loads(line))
            except Exception as e:  # noqa: BLE001  # whatever it is, the owner is to be told
                answer = {"error": f"{type(e).__name__}: {e}"}
            answers.write(json.dumps(answer) + "\n")
    except BrokenPipeError:
        pass  # the owner is gone
    finally:
        keeper.close()


def _next_line() -> str | None:
    """The next order, None at the end. One comes at a time, as its owner waits for the answer, so
    nothing stays behind in the buffer that `select` does not see.
    """
    while not select.select([sys.stdin], [], [], COLLECT_S)[0]:
        collect()
    return sys.stdin.readline() or None


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
