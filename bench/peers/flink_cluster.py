"""A standalone Flink cluster on loopback, from the pip package: one JobManager, two workers.

    jobmanager   1 GB     rest.port, jobmanager.rpc.port: free ones
    worker-0     1.5 GB   two slots: the query needs two in all,
    worker-1     1.5 GB   so whichever worker dies, the other has room for it at once

That is the best case for a restart: no machine has to be found and no JVM to be started. The
in-process cluster of the other runs would not do: it dies whole, with its one JVM.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from gapless.bench.peers.processes import Processes
from gapless.protocol.errors import Misuse

Conf = Literal["tuned", "default"]

SLOTS = 2
WORKERS = ("worker-0", "worker-1")
MANAGER = "jobmanager"

_CLUSTER = {
    "jobmanager.memory.process.size": "1g",
    "taskmanager.memory.process.size": "1536m",
    "taskmanager.memory.managed.fraction": "0.2",  # the state is on the heap
    "taskmanager.numberOfTaskSlots": str(SLOTS),
}
_JOB = {
    "parallelism.default": str(SLOTS),
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    "execution.checkpointing.interval": "1s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.storage": "filesystem",
    "state.backend.type": "hashmap",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100",
}
CLUSTER: Mapping[Conf, Mapping[str, str]] = MappingProxyType(
    {
        "default": _CLUSTER,
        "tuned": {**_CLUSTER, "heartbeat.interval": "500", "heartbeat.timeout": "4000"},
    }
)
"""What the processes are told. Flink's own heartbeats are every 10 s, with 50 s of patience."""
JOB: Mapping[Conf, Mapping[str, str]] = MappingProxyType(
    {
        "default": {**_JOB, "restart-strategy.fixed-delay.delay": "1s"},
        "tuned": {**_JOB, "restart-strategy.fixed-delay.delay": "100ms"},
    }
)
"""What the job is told; a second is Flink's own delay before it restarts."""

_ANSWER_LIMIT_S = 5.0


@dataclass(frozen=True)
class Cluster:
    """A cluster that was started; its processes are its caller's to end."""

    processes: Processes
    rest_port: int

    @staticmethod
    def start(home: Path, directory: Path, processes: Processes, conf: Conf) -> Cluster:
        """Starts the three processes of the Flink in `home`; all their files are in `directory`.

        They are not ready when this returns: `ready` tells.
        """
        rest_port, rpc_port = free_ports(2)
        settings = {
            **CLUSTER[conf],
            "rest.port": str(rest_port),
            "rest.bind-port": str(rest_port),
            "jobmanager.rpc.port": str(rpc_port),
            "io.tmp.dirs": str(directory / "tmp"),
        }
        shutil.copytree(home / "conf", directory / "conf")
        for name in ("log", "tmp"):
            (directory / name).mkdir()
        environment = {
            **os.environ,
            "FLINK_CONF_DIR": str(directory / "conf"),
            "FLINK_LOG_DIR": str(directory / "log"),
            "FLINK_PID_DIR": str(directory / "tmp"),
        }
        scripts = {MANAGER: "jobmanager.sh", **dict.fromkeys(WORKERS, "taskmanager.sh")}
        for name, script in scripts.items():
            mine = settings if name == MANAGER else {**settings, "taskmanager.resource-id": name}
            told = [word for each in mine.items() for word in ("-D", "=".join(each))]
            command = [str(home / "bin" / script), "start-foreground", *told]
            processes.start(name, command, environment)
        return Cluster(processes, rest_port)

    def ready(self) -> bool:
        """Whether both workers have told the JobManager of themselves."""
        try:
            found = self.ask("/taskmanagers")
        except Misuse:  # it does not listen yet, or is not the leader yet
            return False
        return len(found["taskmanagers"]) == len(WORKERS)

    def state(self, job: str) -> str:
        """RUNNING, RESTARTING, FINISHED, ... in Flink's words."""
        return str(self.ask(f"/jobs/{job}")["state"])

    def restored(self, job: str) -> int:
        """How many times the job was started again from a checkpoint."""
        return int(self.ask(f"/jobs/{job}/checkpoints")["counts"]["restored"])

    def busiest(self, job: str) -> str:
        """The worker that runs most of the job's tasks."""
        vertices = self.ask(f"/jobs/{job}")["vertices"]
        tasks = Counter(
            str(task["taskmanager-id"])
            for vertex in vertices
            for task in self.ask(f"/jobs/{job}/vertices/{vertex['id']}")["subtasks"]
        )
        for name, _ in tasks.most_common():
            if name in WORKERS:
                return name
        raise Misuse(f"Flink runs the job's tasks on {sorted(tasks)}, none of which is a worker")

    def ask(self, path: str) -> dict[str, Any]:
        """What the JobManager answers. Raises `Misuse` where it does not, or not in JSON."""
        connection = HTTPConnection("127.0.0.1", self.rest_port, timeout=_ANSWER_LIMIT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise Misuse(f"Flink answers {path} with status {answer.status}: {text[:200]!r}")
            found: dict[str, Any] = json.loads(text)
        except (OSError, HTTPException, ValueError) as error:
            raise Misuse(f"Flink does not answer {path}: {error}") from error
        finally:
            connection.close()
        return found


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has; all different, as they are held until all are found."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()
