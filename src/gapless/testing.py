"""Public test tools: find out whether your streams merge.

Two replicas of a query, or two plans for it, are supposed to say the same table. Record what each
says, as frames, and rehearse: their streams are merged in many orders, each crashes somewhere but
one, and every step is checked.

    from gapless.testing import rehearse

    for seed in range(100):
        rehearse([frames_of_plan_a, frames_of_plan_b], seed)

A `TrialFailed` says what went wrong, after which step; the same seed plays it again. Where you have
the table and no streams yet, `tell` makes as many as you like: late, disordered, revised, with
duplicates, each legal by construction. Where you have an operator of your own, feed it those.

    table = random_tdb(random.Random(1), schema, payloads)
    streams = [tell(table, random_telling(random.Random(seed)), seed) for seed in range(3)]

What it takes to be right, from the small to the large:

    Tdb                  the table that a stream describes; strict: it refuses an illegal stream
    compatible           the conditions under which an output can still follow its inputs
    Teller, Trial        inputs that obey feedback; a merger, what comes out, and the checks
    rehearse             one trial of your streams
    run_seed             one trial of drawn streams, with crashes, late joins and feedback
"""

from gapless.chaos.tellers import Teller
from gapless.chaos.trials import (
    Merging,
    Trial,
    TrialFailed,
    rehearse,
    run_seed,
)
from gapless.merge.compatible import Breach, Incompatible, check_compatible, compatible
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.variants import Telling, random_tdb, random_telling, tell

__all__ = [
    "Breach",
    "Event",
    "Incompatible",
    "Merging",
    "Tdb",
    "Teller",
    "Telling",
    "Trial",
    "TrialFailed",
    "check_compatible",
    "compatible",
    "random_tdb",
    "random_telling",
    "rehearse",
    "run_seed",
    "tell",
]
