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

Not replaced is what reads the clock by itself, as `numpy.datetime64("now")` does: it differs by
microseconds. Nor is the order of a set of texts, which follows from Python's own salt.
"""

from __future__ import annotations

import datetime as dt
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
    time.localtime,
    time.gmtime,
    dt,
    dt.datetime,
    dt.date,
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
        clock = {
            "time": self._time,
            "time_ns": self._time_ns,
            "localtime": self._localtime,
            "gmtime": self._gmtime,
        }
        day, moment = _calendar(dt.timedelta(seconds=self._ahead_s))
        others = (
            _with(time, **clock),
            *clock.values(),
            _with(dt, datetime=moment, date=day),
            moment,
            day,
            self._hash,
        )
        self._others = {id(own): other for own, other in zip(OF_MACHINE, others, strict=True)}

    def instead_of(self, own: Any) -> Any:
        """What this machine has in its place."""
        return self._others[id(own)]

    def _time(self) -> float:
        return time.time() + self._ahead_s

    def _time_ns(self) -> int:
        return time.time_ns() + self._ahead_s * 1_000_000_000

    def _localtime(self, seconds: float | None = None) -> time.struct_time:
        return time.localtime(self._time() if seconds is None else seconds)

    def _gmtime(self, seconds: float | None = None) -> time.struct_time:
        return time.gmtime(self._time() if seconds is None else seconds)

    def _hash(self, value: object) -> int:
        if isinstance(value, str | bytes):
            return hash((self._salt, value))
        if isinstance(value, tuple):
            return hash(tuple(self._hash(each) for each in value))
        return hash(value)


def _with(own: types.ModuleType, **others: Any) -> types.ModuleType:
    """A module like `own`, except for some of its names."""
    module = types.ModuleType(own.__name__, own.__doc__)
    vars(module).update(vars(own) | others)
    return module


def _calendar(ahead: dt.timedelta) -> tuple[type, type]:
    """`date` and `datetime` whose today and now are ahead; what they make are real ones."""

    class Date(dt.date, metaclass=_AsReal):
        def __new__(cls, *args: Any, **named: Any) -> Any:
            return dt.date(*args, **named)

        @classmethod
        def today(cls) -> Any:
            return (dt.datetime.now() + ahead).date()  # noqa: DTZ005  # as the real one

    class DateTime(dt.datetime, metaclass=_AsReal):
        def __new__(cls, *args: Any, **named: Any) -> Any:
            return dt.datetime(*args, **named)  # noqa: DTZ001  # with what the user gives

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return dt.datetime.now(tz) + ahead

        @classmethod
        def today(cls) -> Any:
            return cls.now()

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now(dt.UTC).replace(tzinfo=None)

    return Date, DateTime
