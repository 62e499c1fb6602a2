"""Whom a fault may hit: the slots, processes and nodes of a stage's job, as they are now.

    "r0.1", "m0.0"    slots: a replica, a merger; another life has a slot after each death
    "root"            the process that has the supervisor; there is one
    "n2"              a node; never the head, which has the cluster's directory and the observer

What a scenario names is taken; else the fault draws, with a generator of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import psutil

from gapless.actors.host import About
from gapless.chaos.drill.faults.fault import CannotStrike, Fault
from gapless.failover.messages import Life

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage

ROOT: Final = "root"
"""The target that is no slot."""
SlotRole = Literal["r", "m"]
"""Of a replica's or a merger's slot: its first letter."""
Role = SlotRole | Literal["root"]
"""Of one process."""


class Targets:
    """What a stage has that a fault may hit. Asks the job's root, each time."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def life_of(self, slot: str) -> tuple[Life, About]:
        """Who is in a slot, and where. Raises `CannotStrike` where nobody is."""
        view = self._stage.view()
        lives = [life for life in view.hosts if life.slot == slot]
        if not lives:
            there = sorted({life.slot for life in view.hosts})
            raise CannotStrike(f"nobody is in slot {slot}; there are {', '.join(there)}")
        return max(lives), view.hosts[max(lives)]

    def slots(self, role: SlotRole) -> list[str]:
        """The slots of replicas or mergers that somebody is in."""
        return sorted({life.slot for life in self._stage.view().hosts if life.slot[0] == role})

    def pid_of(self, slot: str) -> int:
        """The process of a slot, or of the root."""
        pid = self._stage.view().root.pid if slot == ROOT else self.life_of(slot)[1].pid
        if not pid:
            raise CannotStrike(f"the process of {slot} is not known now")
        return pid

    def one_of(self, fault: Fault, role: Role) -> tuple[str, str, int]:
        """The process of a role that a fault hits: the target, who that is in words, and its
        number.
        """
        if role == ROOT:
            pid = self.pid_of(ROOT)
            return ROOT, f"process {pid}", pid
        slot = self.pick(fault, role)
        life, about = self.life_of(slot)
        return slot, f"{life}, process {about.pid}", about.pid

    def pick(self, fault: Fault, role: SlotRole) -> str:
        """The slot that a fault hits: the scenario's, or one that is drawn."""
        if fault.planned.target is not None:
            return fault.planned.target
        slots = self.slots(role)
        if not slots:
            raise CannotStrike("nobody is there to be hit")
        return fault.rng.choice(slots)

    def pick_node(self, fault: Fault) -> str:
        """The node that a fault hits: the scenario's, or one that is drawn; never the head, which
        has the cluster's directory and the observer.
        """
        if fault.planned.target is not None:
            return fault.planned.target
        names = [name for name in self._stage.nodes.names if name != self._stage.nodes.head]
        if not names:
            raise CannotStrike("the head is alone, and not to be hit")
        return fault.rng.choice(names)

    def lives_on(self, node: str) -> dict[str, int]:
        """Who lives on a node: the processes, by slot."""
        id = self._stage.nodes.ids[node]
        hosts = sorted(self._stage.view().hosts.items())
        return {life.slot: about.pid for life, about in hosts if about.node == id}

    def everybody(self) -> tuple[str, str, list[int]]:
        """All of the job's processes, as a target: its name, who that is in words, and the
        processes.
        """
        processes = self.processes()
        pids = [process.pid for process in processes.values()]
        return "everything", ", ".join(processes), pids

    def processes(self) -> dict[str, psutil.Process]:
        """The job's processes that are known now, by slot; its "root", and the "standby"."""
        view = self._stage.view()
        pids = {life.slot: about.pid for life, about in sorted(view.hosts.items())}
        pids["root"] = view.root.pid
        if view.standby is not None:
            pids["standby"] = view.standby.pid
        found = {}
        for who, pid in pids.items():
            try:
                found[who] = psutil.Process(pid)
            except (psutil.NoSuchProcess, ValueError):
                continue  # it has just died
        return found
