"""A Ray cluster of several nodes on this machine, of which each can die as a machine does.

    with LocalNodes(3) as nodes:            n1 the head, n2, n3
        job = gl.launch(query, ..., address=nodes.address)
        nodes.kill("n2")                    its raylet and all its workers, at once
        nodes.add()                         n4

For demonstrations, drills and tests. It joins no cluster that runs here, and none of it is left
when this process ends, in whatever way: a keeper sees to that (see local_keeper.py). The cluster
takes orders only with a token of its own, which this process and what it starts have in their
environment meanwhile. The head holds the cluster's directory (its GCS): drills kill the others.

Nodes share this machine's network, or each is a host of one that is given: n1 is its host 1.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import IO, Any, Literal, Protocol, Self

import psutil

from gapless.actors.local_keeper import END_WAIT_S, called, end, marked, tell
from gapless.protocol.errors import JobError, Misuse

OBJECT_STORE_BYTES = 80 << 20
"""Of a node: just above the least that Ray takes (75 MiB)."""
NODES_MAX = 16
"""At once: each takes some 200 MB and half a second of a core."""
DIR_CHARS_MAX = 40
"""Ray puts sockets in the directory, and the path of a socket has 107 characters at most."""
CLOSE_S = 30.0
"""How long the keeper may take to end everything, until its owner does."""
STOP_S, STOP_S_MAX = 0.01, 5.0
"""Between two looks whether all processes of a node have stopped, as one may just be being forked;
and how long that may take.
"""
_TAIL_CHARS = 2000

Kind = Literal["gcs_server", "raylet"]
"""The programs of Ray that drills kill: the cluster's directory, on the head; the one that owns the
workers of a node.
"""


class HostNetwork(Protocol):
    """Hosts that nodes live on, from 1 on: one of it is node n1, and so forth. Host 1 is where this
    process is, too, so that it reaches the cluster. It stays open for longer than the nodes.
    """

    def address(self, host: int, /) -> str:
        """Where others reach a host. Raises `Misuse` where there is no such host."""

    def namespace(self, host: int, /) -> str | None:
        """A path to a host's network namespace; None of one that is in this process's own."""


class LocalNodes:
    """A cluster of several nodes on this machine. A context manager; not for several threads."""

    def __init__(
        self,
        count: int,
        *,
        num_cpus: int = 1,
        object_store_bytes: int = OBJECT_STORE_BYTES,
        temp_dir: str | os.PathLike[str] | None = None,
        persistent: bool = False,
        network: HostNetwork | None = None,
    ) -> None:
        """`num_cpus`, `object_store_bytes`: of each node. `temp_dir`: where the cluster's own
        directory is made, which is gone afterwards. `persistent`: the cluster's directory (its GCS)
        keeps what it knows on disk, so that one that is killed can be restarted. `network`: whose
        hosts the nodes are, which see each other by its addresses alone; connect a driver to them
        with `driver_settings`.
        """
        if not 1 <= count <= NODES_MAX:
            raise Misuse(f"{count} nodes: from 1 to {NODES_MAX} can be started")
        parent = tempfile.gettempdir() if temp_dir is None else os.fspath(temp_dir)
        if temp_dir is None and len(parent) > DIR_CHARS_MAX:
            parent = "/tmp"  # noqa: S108  # mkdtemp makes a directory in it that is ours alone
        if len(parent) > DIR_CHARS_MAX:
            raise Misuse(f"temp_dir {parent}: Ray needs a path of {DIR_CHARS_MAX} letters at most")
        self._count = count
        self._parent = parent
        if persistent and (why := why_not_persistent()):
            raise Misuse(f"persistent: {why}")
        self._node = {
            "num_cpus": num_cpus,
            "object_store_bytes": object_store_bytes,
            "persistent": persistent,
        }
        self._network = network
        self._mark = token_hex(8)
        self._token = token_hex(32)
        self._address = ""
        self._ids: dict[str, str] = {}
        self._made = 0
        self._keeper: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None
        self._dir = ""
        self._was: dict[str, str | None] = {}

    # -- what there is ------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """For `address=` of `launch`, `attach`, `ray.init`."""
        return self._address

    @property
    def driver_settings(self) -> Mapping[str, Any]:
        """What `cluster.connect` and `ray.init` need besides the address: of a driver here."""
        if self._network is None:
            return {}
        return {"_node_ip_address": self._network.address(1)}

    @property
    def names(self) -> tuple[str, ...]:
        """Of the nodes that were started and not killed, the head first."""
        return tuple(self._ids)

    @property
    def head(self) -> str:
        """The node that is not to be killed."""
        return "n1"

    @property
    def ids(self) -> Mapping[str, str]:
        """By name, the node's id in the cluster."""
        return dict(self._ids)

    @property
    def dir(self) -> Path:
        """Where Ray has its sockets and logs."""
        return Path(self._dir)

    def name_of(self, node_id: str) -> str:
        """A node's name by its id; empty where it is gone."""
        return next((name for name, id in self._ids.items() if id == node_id), "")

    def processes(self, name: str | None = None) -> list[psutil.Process]:
        """The processes of a node, or of all."""
        return marked(f"{self._mark}/{name or ''}")

    def processes_of(self, kind: Kind, name: str) -> list[psutil.Process]:
        """Of a node's processes those of one program; none where it has died."""
        return called(f"{self._mark}/{name}", kind)

    # -- drills: whole nodes ------------------------------------------------------------------

    def add(self) -> str:
        """Starts one more node; its name. Returns once the cluster knows it."""
        if len(self._ids) >= NODES_MAX:
            raise Misuse(f"there are {NODES_MAX} nodes already: kill one first")
        host = self._made + 1
        place: dict[str, str | None] = {"ip": None, "namespace": None}
        if self._network is not None:
            place = {"ip": self._network.address(host), "namespace": self._network.namespace(host)}
        name = f"n{host}"
        self._made = host
        answer = self._ask({"do": "start", "name": name, **self._node, **place})
        self._ids[name] = answer["id"]
        self._address = answer["address"]
        return name

    def kill(self, name: str) -> None:
        """Kills all processes of a node, at once and by force: a machine dies. Where its raylet
        has died before it ends what is left.
        """
        self._check(name)
        self._kill(name, None)
        del self._ids[name]

    def freeze(self, name: str) -> None:
        """Stops all processes of a node where they are; returns once they have. The cluster takes
        it for dead after about a second; thawed later than that, it ends itself.
        """
        self._check(name)
        _stop(f"node {name}", lambda: self.processes(name))

    def thaw(self, name: str) -> None:
        """Lets a frozen node go on."""
        tell(self.processes(name), signal.SIGCONT)

    # -- drills: the cluster's own processes --------------------------------------------------

    def kill_gcs(self) -> None:
        """Kills the cluster's directory. Processes go on; none is started, found or missed."""
        if not self.processes_of("gcs_server", self.head):
            raise Misuse("kill_gcs: it is dead already")
        self._kill(self.head, "gcs_server")

    def restart_gcs(self) -> None:
        """Starts the cluster's directory again, where it was and with what it knew. Returns once it
        answers; the nodes come back to it within a second or so.
        """
        if not self._node["persistent"]:
            raise Misuse("restart_gcs: it would know nothing; use LocalNodes(..., persistent=True)")
        if self.processes_of("gcs_server", self.head):
            raise Misuse("restart_gcs: it runs: kill it first")
        self._ask({"do": "restart gcs_server of", "name": self.head})

    def kill_raylet(self, name: str) -> None:
        """Kills a node's raylet: the node is gone, and its workers end themselves. `kill` the node
        after it, which ends those that do not.
        """
        self._raylet(name)
        self._kill(name, "raylet")

    def freeze_raylet(self, name: str) -> None:
        """Stops a node's raylet where it is, and none of its workers; returns once it has stopped.
        The cluster takes the node for dead after about a second, which its workers do not know.
        """
        self._raylet(name)
        _stop(f"the raylet of {name}", lambda: self.processes_of("raylet", name))

    def thaw_raylet(self, name: str) -> None:
        """Lets a frozen raylet go on. One that was taken for dead meanwhile ends itself."""
        tell(self._raylet(name), signal.SIGCONT)

    def _raylet(self, name: str) -> list[psutil.Process]:
        self._check(name)
        found = self.processes_of("raylet", name)
        if not found:
            raise Misuse(f"the raylet of node {name} is dead already: `kill` ends what is left")
        return found

    def _kill(self, name: str, kind: Kind | None) -> None:
        left = self._ask({"do": "kill", "name": name, "kind": kind})["left"]
        if left:
            raise JobError(f"node {name}: processes {left} cannot be killed")

    def _check(self, name: str) -> None:
        if name not in self._ids:
            raise Misuse(f"node {name!r}: there are {', '.join(self._ids)}")
        if name == self.head:
            raise Misuse(f"node {name} holds the cluster's directory: choose another one")

    # -- its life -----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Starts all nodes. Raises `JobError` where that cannot be, and nothing is left."""
        try:
            self._start_keeper()
            for _ in range(self._count):
                self.add()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends every process and removes the directory. Disconnect from the cluster before it."""
        keeper, self._keeper = self._keeper, None
        self._ids.clear()
        try:
            if keeper is not None:
                _end_keeper(keeper)
                end(f"{self._mark}/")
        finally:
            self._restore()
            if self._log is not None:
                self._log.close()
                self._log = None

    def _start_keeper(self) -> None:
        settings = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self._token,
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        self._was = {name: os.environ.get(name) for name in settings}
        os.environ.update(settings)
        _refresh_token()
        self._log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  # until close()
        self._dir = tempfile.mkdtemp(prefix="gl-", dir=self._parent)
        module = "gapless.actors.local_keeper"
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", module, self._dir, self._mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            process_group=0,  # a person's Ctrl-C is for us
        )

    def _restore(self) -> None:
        if not self._was:
            return
        for name, value in self._was.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._was = {}
        _refresh_token()

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        keeper = self._keeper
        if keeper is None or keeper.stdin is None or keeper.stdout is None:
            raise Misuse("these nodes are not started, or closed: use `with LocalNodes(3) as ...`")
        try:
            keeper.stdin.write(json.dumps(order) + "\n")
            keeper.stdin.flush()
            line = keeper.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the keeper has ended"}
        if "error" in answer:
            raise JobError(
                f"cannot {order['do']} node {order['name']}: {answer['error']}\n{self._said()}"
            )
        return answer

    def _said(self) -> str:
        """The end of Ray's output."""
        if self._log is None:
            return ""
        self._log.seek(0)
        return self._log.read()[-_TAIL_CHARS:].strip()


def why_not_persistent() -> str | None:
    """Why a GCS cannot keep what it knows here; None where it can."""
    node: Any = import_module("ray._private.node").Node
    if hasattr(node, "_is_rocksdb_gcs"):
        return None
    return "this version of Ray cannot keep its GCS in RocksDB: 2.60 can"


def _stop(what: str, look: Callable[[], list[psutil.Process]]) -> None:
    """Stops processes; returns once they have."""
    until = time.monotonic() + STOP_S_MAX
    while moving := [each for each in look() if not _is_stopped(each)]:
        if time.monotonic() >= until:
            raise JobError(f"{what}: processes {[p.pid for p in moving]} do not stop")
        tell(moving, signal.SIGSTOP)
        time.sleep(STOP_S)


def _is_stopped(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return True


def _end_keeper(keeper: subprocess.Popen[str]) -> None:
    """Closes its pipe, upon which it ends everything."""
    if keeper.stdin is not None:
        keeper.stdin.close()
    try:
        keeper.wait(CLOSE_S)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait(END_WAIT_S)
    if keeper.stdout is not None:
        keeper.stdout.close()


def _refresh_token() -> None:
    """Ray reads its token once: a Ray that is already loaded has to read it again."""
    if "ray" not in sys.modules:
        return
    raylet: Any = import_module("ray._raylet")  # compiled, and without types
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()
