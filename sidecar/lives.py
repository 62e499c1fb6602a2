"""Lives: a producer and its incarnation on the wire, as the life of a slot that the machines know.

    producer "a", incarnation 7     <-->     a/0.7     the next life: a/0.8

On the wire an incarnation is one number of 64 bits, in an envelope two of 32. The largest is
nobody's: a life is let go by fencing it off from the one that would come next.
"""

from __future__ import annotations

from gapless.failover.job.whole_file import is_name
from gapless.failover.messages import Life
from gapless.protocol.envelope import Incarnation
from gapless.sidecar.definition import NAME_CHARS_MAX
from gapless.sidecar.server.refusals import Refusal

_U32 = 1 << 32
INCARNATION_MAX = _U32 * _U32 - 2
"""One below the largest of 64 bits: each life may have a next one."""


def life_of(producer: str, incarnation: int) -> Life:
    """The life that an incarnation of a producer is. Raises `Refusal`."""
    if not is_name(producer, NAME_CHARS_MAX):
        raise Refusal(
            "INVALID_ARGUMENT",
            f"producer {producer!r:.70}: a name has letters, digits, dots, dashes, underscores, "
            f"and {NAME_CHARS_MAX} characters at most",
        )
    if not 0 <= incarnation <= INCARNATION_MAX:
        raise Refusal(
            "INVALID_ARGUMENT",
            f"producer {producer}: incarnation {incarnation}, 0 to {INCARNATION_MAX} may be: take "
            "the time in microseconds",
        )
    return Life(producer, Incarnation(*divmod(incarnation, _U32)))


def incarnation_of(life: Life) -> int:
    """The inverse."""
    return life.incarnation.term * _U32 + life.incarnation.counter


def life_after(life: Life) -> Life:
    """The smallest life that is later than this one, of the same producer."""
    return Life(life.slot, Incarnation(*divmod(incarnation_of(life) + 1, _U32)))
