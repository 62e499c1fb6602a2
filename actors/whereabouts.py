"""Which Ray clusters there are, and what of ours runs in one: asked without connecting to it.

    at_hand()                       the clusters with a node of this user on this machine
    roots(address)                  the jobs that run in one
    actor_at(address, "talkers/root")    the actor of a name there: its number, its process

A process is connected to one cluster at a time, and connecting takes a second. These ask the
cluster's control service (GCS) itself, a call of some milliseconds, so that a search for a job
looks everywhere, and none is started a second time because somebody looked in the wrong place.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import psutil
import ray
from ray._private.grpc_utils import init_grpc_channel
from ray._private.utils import read_ray_address
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

from gapless.actors.cluster import show_token
from gapless.actors.host import NAMESPACE
from gapless.failover.job.files import Where
from gapless.protocol.errors import Misuse

ANSWERED_S = 3.0
"""How long a cluster may take to list what runs in it: it takes some milliseconds."""
CLUSTERS_MAX = 64
"""Clusters of one machine that are looked at: each runs processes of some hundred megabytes."""
ROOT = "/root"
"""Behind a job's name, that of its root."""
STANDBY = "/standby"
"""Behind a job's name, that of the actor which is its root when the other one has died."""
_NODE = "raylet"
"""The process of a node; its arguments say where the control service of its cluster is."""
_ADDRESS = "--gcs-address="
_gcs: Any = gcs_service_pb2
_Service: Any = gcs_service_pb2_grpc.ActorInfoGcsServiceStub
_OK, _NOT_FOUND = 0, 17
"""What the control service answers with."""
_ALIVE = 2
"""Its word for an actor that has a process."""


@dataclass(frozen=True)
class Found:
    """An actor that a cluster has."""

    actor: str
    """Ray's number of it."""
    pid: int
    """0 while it has no process: it is being made, or restarted."""


class Silent(Exception):
    """A cluster does not answer which jobs run in it."""

    def __init__(self, why: str, *, is_there: bool) -> None:
        super().__init__(why)
        self.is_there = is_there
        """Whether somebody listens at its address."""


def root_name(job: str) -> str:
    """What the root of a job is called in its cluster."""
    return f"{job}{ROOT}"


def standby_name(job: str) -> str:
    """What the actor that stands by as the root of a job is called in its cluster."""
    return f"{job}{STANDBY}"


def here() -> Where:
    """Where this actor runs."""
    context = ray.get_runtime_context()
    actor = context.get_actor_id() or ""
    return Where(context.gcs_address, actor, socket.gethostname(), os.getpid())


def at_hand() -> list[str]:
    """The addresses of the clusters with a node of this user on this machine, and of the one that
    `ray start` has started last.
    """
    found: dict[str, None] = {}
    for process in psutil.process_iter(["name", "cmdline", "uids"]):
        uids, command = process.info["uids"], process.info["cmdline"] or []
        if uids is not None and uids.real == os.getuid() and process.info["name"] == _NODE:
            at = [text.removeprefix(_ADDRESS) for text in command if text.startswith(_ADDRESS)]
            found.update(dict.fromkeys(at))
    if latest := read_ray_address():
        found[latest] = None
    return list(found)[:CLUSTERS_MAX]


def roots(address: str) -> list[str]:
    """The jobs that run in a cluster. Raises `Silent`."""
    with _service(address) as service:
        request = _gcs.ListNamedActorsRequest(ray_namespace=NAMESPACE)
        listed = service.ListNamedActors(request, timeout=ANSWERED_S).named_actors_list
    names = (each.name for each in listed if each.ray_namespace == NAMESPACE)
    return sorted(name.removesuffix(ROOT) for name in names if name.endswith(ROOT))


def actor_at(address: str, name: str) -> Found | None:
    """The actor of ours with that name in a cluster, also while it is being restarted; None where
    there is none. Raises `Silent`.
    """
    with _service(address) as service:
        request = _gcs.GetNamedActorInfoRequest(name=name, ray_namespace=NAMESPACE)
        reply = service.GetNamedActorInfo(request, timeout=ANSWERED_S)
    if reply.status.code == _NOT_FOUND:
        return None
    if reply.status.code != _OK:
        raise Silent(reply.status.message, is_there=True)
    data = reply.actor_table_data
    return Found(str(data.actor_id.hex()), data.pid if data.state == _ALIVE else 0)


def cluster_of(job: str) -> str:
    """The address of the one reachable cluster in which a job of this name runs. Raises `Misuse`
    where there is none, or more than one, and says where it has looked.
    """
    found = jobs_at(at_hand())
    running = [at for at, jobs in found.items() if not isinstance(jobs, Silent) and job in jobs]
    if len(running) == 1:
        return running[0]
    if running:
        raise Misuse(
            f"jobs called {job!r} run in {len(running)} clusters of this machine: name one with "
            f"--address (address=): {', '.join(running)}"
        )
    there = {at: jobs for at, jobs in found.items() if not is_gone(jobs)}
    if not there:
        raise Misuse(
            f"no job {job!r} runs on this machine, nor does a Ray cluster: name that of another "
            "machine with --address HOST:PORT (address=); `gapless run --resume DIR` runs a job "
            "again whose cluster is gone"
        )
    looked = "; ".join(f"the cluster at {at}, {_why(jobs)}" for at, jobs in there.items())
    raise Misuse(
        f"no job {job!r} runs in a cluster with a node of yours on this machine; looked at: "
        f"{looked}. Name another machine's with --address HOST:PORT (address=); `gapless run "
        "--resume DIR` runs a job again whose cluster is gone"
    )


def is_gone(found: list[str] | Silent) -> bool:
    """Whether a cluster that was looked at is none any more."""
    return isinstance(found, Silent) and not found.is_there


def jobs_at(addresses: list[str]) -> dict[str, list[str] | Silent]:
    """By address the jobs that run there, or why it does not say; all are asked at once."""
    if not addresses:
        return {}
    with ThreadPoolExecutor(len(addresses), thread_name_prefix="clusters") as asking:
        return dict(zip(addresses, asking.map(_roots, addresses), strict=True))


def _roots(address: str) -> list[str] | Silent:
    try:
        return roots(address)
    except Silent as e:
        return e


@contextmanager
def _service(address: str) -> Iterator[Any]:
    """The control service at an address."""
    try:
        show_token(address, ANSWERED_S)
        channel = init_grpc_channel(address)
    except (OSError, ValueError) as e:
        raise Silent(f"nobody listens at {address}: {e}", is_there=False) from None
    try:
        yield _Service(channel)
    except grpc.RpcError as e:
        said = e.details() if isinstance(e, grpc.Call) else str(e)
        raise Silent(f"{address} does not answer: {said}", is_there=True) from None
    finally:
        channel.close()


def _why(found: list[str] | Silent) -> str:
    if isinstance(found, Silent):
        return f"which does not say what runs there: {found}"
    return f"which runs {', '.join(found)}" if found else "which runs none"
