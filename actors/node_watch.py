"""Which nodes the cluster has, watched by a thread of a job's root.

    look, wait 300 ms, look ...     other nodes  --> changed(), on that thread
                                    no answer    --> nothing: the cluster's directory is away

What a job's processes ran on may be gone, so its supervisor hears of each change.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError

NODES_MS = 300
"""Between two looks at which nodes there are."""

_log = logging.getLogger("gapless.actors")


class NodeWatch:
    """The nodes that can be used now. For any thread."""

    def __init__(self) -> None:
        """Looks for the first time. Raises `RayError` where the cluster does not answer."""
        self.names = usable_nodes()
        """By id, their names."""
        self._ended = threading.Event()

    def start(self, changed: Callable[[], None]) -> None:
        """Watches from now on: `changed` is told on a thread of its own, as the cluster's directory
        may be away for a while.
        """
        threading.Thread(target=self._watch, args=(changed,), name="nodes", daemon=True).start()

    def end(self) -> None:
        """Looks no more."""
        self._ended.set()

    def name_of(self, node: str) -> str:
        """For people; also of a node that is gone."""
        return self.names.get(node, node[:8])

    def _watch(self, changed: Callable[[], None]) -> None:
        while not self._ended.wait(NODES_MS / 1000):
            self.look(changed)

    def look(self, changed: Callable[[], None]) -> None:
        """Looks once, and tells where there are other nodes than before."""
        try:
            names = usable_nodes()
        except RayError as e:
            _log.warning("the cluster does not say which nodes it has: %s", e)
            return
        if names.keys() != self.names.keys():
            self.names = names
            changed()


def usable_nodes() -> dict[str, str]:
    """The nodes that can be used now: by id, their names."""
    look: Any = ray.nodes
    return {node["NodeID"]: node["NodeName"] for node in look() if node["Alive"]}
