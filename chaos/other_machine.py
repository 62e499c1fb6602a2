"""What a process finds on its machine, and not on another: the time, and how texts are hashed.

    the process         its clock             hash("a")
    0 (the reference)   as it is              one number
    1                   11 hours further      another one
    2                   22 hours further      a third one

A run of the simulator takes a few milliseconds, in one process. Replicas of a job live for months,
on machines whose clocks differ, and each starts when one before it has died. So a function that
asks what day it is would give one answer in a run, and two in production. Replaced are the names of
a function's module that stand for the clock (`time`, `time.time`, `datetime.datetime`, ...) and for
`hash`, whose answers for texts are another in each process (Python salts them).

Not replaced is what reads the clock by itself: `numpy.datetime64("now")`, `pandas.Timestamp.now()`.
Those differ by microseconds.
"""

from __future__ import annotations

import datetime
import time
import types
from typing import Any

APART_S = 40_271
"""From the clock of one process to the next one's: 11 h 11 min 11 s, so that hours, days and
minutes differ between any two of a few."""

OF_MACHINE: tuple[Any, ...] = (
    time,
    time.time,
    time.time_ns,
    datetime,
    datetime.datetime,
    datetime.date,
    hash,
)
"""What is replaced."""


class _AsReal(type):
    """A class that takes the objects of the class below it for its own."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__bases__[0])

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__bases__[0])


class OtherMachine:
    """The machine of process `number`."""

    def __init__(self, number: int) -> None:
        self._ahead_s = number * APART_S
        self._salt = number
        clock = self._module(time, time=self._time, time_ns=self._time_ns)
        day, moment = _calendar(datetime.timedelta(seconds=self._ahead_s))
        calendar = self._module(datetime, datetime=moment, date=day)
        others = (clock, self._time, self._time_ns, calendar, moment, day, self._hash)
        self._others = {id(own): other for own, other in zip(OF_MACHINE, others, strict=True)}

    def instead_of(self, own: Any) -> Any:
        """What this machine has in its place."""
        return self._others[id(own)]

    @staticmethod
    def _module(own: types.ModuleType, **others: Any) -> types.ModuleType:
        module = types.ModuleType(own.__name__, own.__doc__)
        vars(module).update(vars(own) | others)
        return module

    def _time(self) -> float:
        return time.time() + self._ahead_s

    def _time_ns(self) -> int:
        return time.time_ns() + self._ahead_s * 1_000_000_000

    def _hash(self, value: object) -> int:
        if isinstance(value, str | bytes):
            return hash((self._salt, value))
        if isinstance(value, tuple):
            return hash(tuple(self._hash(each) for each in value))
        return hash(value)


def _calendar(ahead: datetime.timedelta) -> tuple[type, type]:
    """`date` and `datetime` whose today and now are ahead; what they make are real ones."""

    class Date(datetime.date, metaclass=_AsReal):
        def __new__(cls, *args: Any, **named: Any) -> Any:
            return datetime.date(*args, **named)

        @classmethod
        def today(cls) -> Any:
            return (datetime.datetime.now() + ahead).date()  # noqa: DTZ005  # as the real one

    class DateTime(datetime.datetime, metaclass=_AsReal):
        def __new__(cls, *args: Any, **named: Any) -> Any:
            return datetime.datetime(*args, **named)  # noqa: DTZ001  # with what the user gives

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return datetime.datetime.now(tz) + ahead

        @classmethod
        def today(cls) -> Any:
            return cls.now()

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now(datetime.UTC).replace(tzinfo=None)

    return Date, DateTime
