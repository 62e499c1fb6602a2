"""A flight record, replayed: the machine as it was, given the same events at the same times.

    for step in replayed(record): step.event --> step.effects        and `validate()` after each

A machine is a pure function of what it is given, so it does what it did. Work that it asks for
beside it is done here, where its result was given to it. The rows of one frame may stand in another
order than they did where the machine began from an image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from gapless.failover.machines import Effect, Event
from gapless.failover.recorder.record import Functions, Record
from gapless.failover.replica.effects import Done, Work
from gapless.failover.supervisor.effects import Command
from gapless.protocol.errors import Misuse


@dataclass(frozen=True, slots=True)
class Step:
    """One event, and what followed."""

    number: int
    now: int
    event: Event
    effects: list[Effect]
    error: Exception | None = None
    """What the machine, or its `validate`, raised: the last step then."""
    refused: str = ""
    """Why a command made no sense: that is no fault."""


def replayed(record: Record, functions: Functions | None = None) -> Iterator[Step]:
    """The steps, each made when it is asked for; ends behind the first that raises. Raises
    `RecordError` where the record cannot be replayed.
    """
    machine = record.start(functions)
    work: dict[int, Callable[[], Any]] = {}
    for number, (event, now) in enumerate(record.events):
        step = _step(machine, number, event, now, work)
        yield step
        if step.error is not None:
            return


def _step(
    machine: Any, number: int, event: Event, now: int, work: dict[int, Callable[[], Any]]
) -> Step:
    effects: list[Effect] = []
    try:
        if isinstance(event, Done) and event.number in work:
            event = replace(event, result=work.pop(event.number)())
        effects = machine.on(event, now)
        machine.validate()
    except Misuse as e:
        if isinstance(event, Command):
            return Step(number, now, event, effects, refused=str(e))
        return Step(number, now, event, effects, e)
    except Exception as e:  # noqa: BLE001  # whatever it raised is what is looked for
        return Step(number, now, event, effects, e)
    work.update({effect.number: effect.do for effect in effects if isinstance(effect, Work)})
    return Step(number, now, event, effects)
