"""The reserve of a job: idle processes that are ready to replace those that die.

    spares      of each node, to become any life           hosts.py makes them
    standby     one, to be the root                         pair.py makes it

To start a process keeps a core busy, so what is needed now comes first: while lives begin, the
reserve is filled up later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from gapless.actors.hosts import Hosts
from gapless.actors.node_threads import NodeThreads
from gapless.actors.pair import Other
from gapless.actors.pump import Pump

SPARES_MS = 1000
"""From a start to the making of spares: what is needed comes first."""
SPARES_AGAIN_MS = 10_000
"""Until spares are made again that could not be made: what keeps them from it may pass."""
SPARES_PUT_OFF_MAX = 10
"""Times that the making of spares waits for lives that begin: the making of one keeps a core busy.
But where one begins for ever, spares are made even so."""
STANDBY_MS = 5000
"""Between two looks whether another actor stands by to be root."""


class Reserve:
    """Of one root. For its pump's thread."""

    def __init__(
        self,
        hosts: Hosts,
        standby: Other | None,
        pump: Pump,
        here: str,
        nodes: Callable[[], Mapping[str, str]],
        begins: Callable[[], bool],
        is_over: Callable[[], bool],
    ) -> None:
        """`here` is the root's node, `nodes` are those that can be used; `begins` says whether a
        life is on its way to be of use, `is_over` whether this root has ended.
        """
        self._hosts, self._standby, self._pump = hosts, standby, pump
        self._here, self._nodes, self._begins, self._is_over = here, nodes, begins, is_over
        self._making = NodeThreads("spare", 1)
        self._is_wanted = False
        self._put_off = 0
        self._ended = threading.Event()

    def want(self) -> None:
        """Has spares made soon; several calls until then count as one."""
        if not self._is_wanted:
            self._is_wanted = True
            self._pump.later(SPARES_MS, self.make)

    def make(self) -> None:
        """Makes what is missing, unless it is put off."""
        self._is_wanted = False
        if self._is_over():
            return
        if self._begins() and self._put_off < SPARES_PUT_OFF_MAX:
            self._put_off += 1
            self.want()
            return
        self._put_off = 0
        for node in self._nodes():
            self._making.submit_once(node, self._make_spares, node)
        if self._standby is not None:
            threading.Thread(
                target=self._keep, args=(self._standby,), name="standby", daemon=True
            ).start()
            self._standby = None  # from now on it is kept

    def _make_spares(self, node: str) -> None:
        """On a thread of the node's."""
        if not self._hosts.make_spares(node):
            self._pump.do(lambda: self._pump.later(SPARES_AGAIN_MS, self.want))

    def _keep(self, standby: Other) -> None:
        """On a thread of its own: a booting process takes a while to identify itself."""
        while not self._ended.is_set():
            standby.ensure(self._here, self._nodes())
            self._ended.wait(STANDBY_MS / 1000)

    def keep_nodes(self, nodes: Iterable[str]) -> None:
        """Those that there are now."""
        self._making.keep(nodes)
        self.want()

    def end(self) -> None:
        """Makes no more."""
        self._ended.set()
        self._making.keep(())
