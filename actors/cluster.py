"""The cluster: the one that is there, at an address, or a small one of this process's own.

    address=None      the cluster that this process is connected to; else one is started here
    address="auto"    the one of this machine; of several the one that `ray start` has started last
    address="HOST:PORT"    that one

Whether anybody listens there is tried first: Ray itself would try again for minutes.

A cluster of our own ends with this process. It has explicit bounds, no dashboard, and asks for its
token, as Ray's own default for local clusters is.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray._private.authentication.authentication_token_setup import (
    maybe_enable_token_auth_if_token_available,
)
from ray._private.services import canonicalize_bootstrap_address_or_die
from ray.exceptions import RayError

from gapless.protocol.errors import Misuse

OBJECT_STORE_BYTES = 256 << 20
"""Of a cluster of our own: messages between lives bypass the object store, except for the state
of a joining replica."""
HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 300,
    "health_check_failure_threshold": 3,
    "worker_niceness": 0,
    "max_direct_call_object_size": 4 << 20,
    "task_rpc_inlined_bytes_limit": 64 << 20,
    "timeout_ms_task_wait_for_death_info": 100,
    "core_worker_internal_heartbeat_ms": 100,
}
"""A node that is lost is seen within a second or two, not within fifteen. And lives are no less
urgent than what else a machine does, as Ray's workers are by default (15): they would be taken for
dead where it is busy. Messages go in the call itself, in slices (wire.py), and not by the object
store; answers do so up to 4 MB.
A call to a root that has just died fails within 0.2 s, and is asked again: by Ray's defaults it is
kept for two seconds, also where the next root is there long before.
"""

REACHED_S = 5.0
"""How long a cluster's address may take to accept a connection: another machine's does at once."""
_TOKENS = "ray._private.authentication.authentication_token_setup"
_AS_MEANT = "Token authentication is enabled"
"""Ray's warning where all is as it should be; the warning that it is *disabled* still appears."""


def connect(address: str | None, **settings: Any) -> bool:
    """Connects this process to a cluster; whether it was started here. Raises `Misuse` where there
    is none to connect to.
    """
    given: Any = address
    if given is not None and (not isinstance(given, str) or not given):
        raise Misuse(f"address={address!r:.100}: 'auto', or HOST:PORT of a Ray cluster")
    if ray.is_initialized():
        there = ray.get_runtime_context().gcs_address
        named = address not in (None, "auto")
        if named and str(address).rpartition(":")[2] != there.rpartition(":")[2]:  # hosts have many
            raise Misuse(f"this process is connected to the cluster at {there}, not at {address}")
        return False
    with _keeping_its_signals():
        return _connect(address, settings)


@contextmanager
def _keeping_its_signals() -> Iterator[None]:
    """Ray has SIGTERM end a process at once, unless a handler is to clean up before."""
    is_main = threading.current_thread() is threading.main_thread()
    was = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if is_main and was is not None and was is not signal.SIG_DFL:
            signal.signal(signal.SIGTERM, was)


def _connect(address: str | None, settings: dict[str, Any]) -> bool:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    logging.getLogger(_TOKENS).addFilter(_is_news)
    common = {"logging_level": "warning", "log_to_driver": False, **settings}
    if address is None:
        ray.init(
            address="local",
            num_cpus=os.cpu_count() or 1,
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            _system_config=HEALTH,
            **common,
        )
        return True
    if address.startswith("ray://"):
        raise Misuse(
            f"address {address}: Ray Client is not used on the path of data; run this on a machine "
            "of the cluster (address='auto', or `ray job submit`)"
        )
    try:
        found = canonicalize_bootstrap_address_or_die(address) if address == "auto" else address
        show_token(found, REACHED_S)
        ray.init(address=found, **common)
    except (RayError, OSError, RuntimeError, ValueError) as e:
        raise Misuse(
            f"no Ray cluster can be reached at {address!r}: {e}; start one (`ray start --head`), "
            "or leave the address out to have one started here"
        ) from None
    return False


def show_token(address: str, timeout_s: float) -> None:
    """From now on this process shows the user's token, as by Ray's own "auto", if the cluster at an
    address is one of this machine's: no other machine gets it. Raises `OSError` where nobody
    listens there, `ValueError` where that is not an address.
    """
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout_s) as connection:
        is_here = connection.getsockname()[0] == connection.getpeername()[0]
    if is_here:
        logging.getLogger(_TOKENS).addFilter(_is_news)
        maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def _is_news(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_AS_MEANT)


def is_free() -> bool:
    """Whether it is open which cluster "auto" is: this process is connected to none, and its user
    has not said which by Ray's own variable.
    """
    return not ray.is_initialized() and not os.environ.get("RAY_ADDRESS")


def connection() -> str | None:
    """Which connection this process has; each has a name of its own, None is none. Calling
    an actor without one has Ray start a cluster for it, and one of another connection ends the
    process: handles are to be asked whether theirs is still there.
    """
    return str(ray.get_runtime_context().get_worker_id()) if ray.is_initialized() else None


def address() -> str:
    """Of the cluster that this process is connected to."""
    return str(ray.get_runtime_context().gcs_address)


def disconnect() -> None:
    """Ends the connection, and with it a cluster that was started here."""
    ray.shutdown()
