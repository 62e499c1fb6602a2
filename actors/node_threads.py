"""Threads by node: what is asked of one node never waits for another.

    spawn r0.1 on a    thread a.0   done
    spawn m0.0 on b    thread b.0   waits: the node hangs, and nobody knows yet
    spawn r0.2 on a    thread a.1   done

Starting a process takes until it answers. A node that hangs answers nobody, so the thread that
waits for it must not keep from their turn those who want something of a node that is well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class NodeThreads:
    """A few threads for each node. Of one thread, the pump's."""

    def __init__(self, name: str, of_each: int) -> None:
        """`of_each`: threads of a node, at most."""
        self._name = name
        self._of_each = of_each
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._waiting: set[str] = set()  # nodes of which it is asked once

    def submit_once(self, node: str, work: Callable[..., Any], *given: Any) -> None:
        """The same, unless it was asked before and still waits for a thread. For work that is the
        same whenever it is done: a node that hangs would gather it for as long as it hangs.
        """
        if node in self._waiting:
            return
        self._waiting.add(node)

        def begins() -> None:
            self._waiting.discard(node)  # what is wanted from now on it may miss
            work(*given)

        self.submit(node, begins)

    def submit(self, node: str, work: Callable[..., Any], *given: Any) -> None:
        """Does something on a thread of a node, once one is free."""
        pool = self._pools.get(node)
        if pool is None:
            pool = self._pools[node] = ThreadPoolExecutor(
                self._of_each, thread_name_prefix=f"{self._name} {node[:8]}"
            )
        pool.submit(work, *given)

    def keep(self, nodes: Iterable[str]) -> None:
        """Lets the threads of all other nodes go, once they are done: those nodes are gone."""
        self._waiting &= set(nodes)
        for node in self._pools.keys() - set(nodes):
            self._pools.pop(node).shutdown(wait=False)
