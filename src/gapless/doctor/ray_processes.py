"""Finds the Ray clusters that run on this machine, and whether they demand a token.

Every node of a cluster runs a `raylet`, the head also a `gcs_server`; anyone who may talk to either
runs programs in the cluster. Both listen on all addresses (tried: `::`, although the node's
address was 127.0.0.1). Whether they demand a token is decided once, when they start, by
RAY_AUTH_MODE in their environment; without it they demand none. The dashboard, the other door, is
started with the same environment as the `gcs_server` beside it, so it needs no look of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv6Address, ip_address

import psutil

from gapless.doctor.facts import RayExposure, RayProcess

AUTH_MODE = "RAY_AUTH_MODE"
_NAMES = ("gcs_server", "raylet")


def ray_exposure(environ: Mapping[str, str]) -> RayExposure:
    """The Ray processes of this machine, and what `environ` makes a job do."""
    return RayExposure(
        processes=tuple(ray_processes(psutil.process_iter())),
        address=environ.get("RAY_ADDRESS") or None,
        sends_token=demands_token(environ),
    )


def demands_token(environ: Mapping[str, str]) -> bool:
    """Whether a Ray process that starts with `environ` takes orders only with a token.

    The same setting decides whether one that joins a named cluster sends a token.
    """
    return environ.get(AUTH_MODE, "").lower() == "token"


def is_reachable(address: str) -> bool:
    """Whether others can reach what listens on `address`."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return not ip.ipv4_mapped.is_loopback
    return not ip.is_loopback


def ray_processes(processes: Iterable[psutil.Process]) -> Iterator[RayProcess]:
    """Those of `processes` that belong to a Ray cluster and take orders from the network."""
    for process in processes:
        try:
            name = process.name()
            if name in _NAMES and process.status() != psutil.STATUS_ZOMBIE:
                yield RayProcess(name, process.pid, _reachable(process), _token(process))
        except psutil.NoSuchProcess:
            continue  # it ended while we looked


def _reachable(process: psutil.Process) -> tuple[str, ...] | None:
    try:
        connections = process.net_connections("tcp")
    except psutil.AccessDenied:
        return None
    return tuple(
        f"[{c.laddr.ip}]:{c.laddr.port}" if ":" in c.laddr.ip else f"{c.laddr.ip}:{c.laddr.port}"
        for c in connections
        if c.status == psutil.CONN_LISTEN and is_reachable(c.laddr.ip)
    )


def _token(process: psutil.Process) -> bool | None:
    try:
        return demands_token(process.environ())
    except psutil.AccessDenied:
        return None
