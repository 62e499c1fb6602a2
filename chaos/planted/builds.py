"""Deliberately broken builds: the proof that the simulator's checks can fail.

    "no join gate": LMerge with one method that says otherwise   --> seed 3: prefix: ... is missing

Each plants one small fault in the protocol, by overriding one method of a production machine: the
rule that some promise rests on. tests/chaos demands that the simulator catches every one of them
within a bounded number of seeds, while the production build stays clean. A contributor who adds a
rule to a machine adds the build without it here.
"""

from __future__ import annotations

from dataclasses import replace

from gapless.chaos.planted import (
    merger_ios,
    mergers,
    outputs,
    replica_ios,
    replicas,
    subscribers,
    supervisor_ios,
    supervisors,
)
from gapless.chaos.sim.simulator import PRODUCTION, Build

BROKEN_BUILDS: dict[str, Build] = {
    "no join gate": replace(PRODUCTION, merge=mergers.NoJoinGate),
    "holds merged for durable": replace(PRODUCTION, merger=mergers.HoldsMergedForDurable),
    "settles more than is durable": replace(PRODUCTION, merger=mergers.SettlesMoreThanIsDurable),
    "takes frames twice": replace(PRODUCTION, merger=mergers.TakesFramesTwice),
    "skips gaps": replace(PRODUCTION, merger=mergers.SkipsGaps),
    "fences nobody": replace(PRODUCTION, merger=mergers.FencesNobody),
    "lets the fenced in": replace(PRODUCTION, merger=mergers.LetsTheFencedIn),
    "does not backfill": replace(PRODUCTION, merger=mergers.DoesNotBackfill),
    "writes past the cut": replace(PRODUCTION, output=outputs.WritesPastTheCut),
    "looks before it writes": replace(PRODUCTION, output=outputs.LooksBeforeItWrites),
    "disowns its links": replace(PRODUCTION, output=outputs.DisownsItsLinks),
    "shows what is not durable": replace(PRODUCTION, output=outputs.ShowsWhatIsNotDurable),
    "syncs nothing": replace(PRODUCTION, output=outputs.SyncsNothing),
    "loses what the disk refuses": replace(PRODUCTION, output=outputs.LosesWhatTheDiskRefuses),
    "forgets its live table": replace(PRODUCTION, output=outputs.ForgetsItsLiveTable),
    "makes empty bases": replace(PRODUCTION, output=outputs.MakesEmptyBases),
    "refuses what is appended": replace(PRODUCTION, merger_io=merger_ios.RefusesWhatIsAppended),
    "takes a full disk for done": replace(PRODUCTION, merger_io=merger_ios.TakesAFullDiskForDone),
    "tries again when fenced": replace(PRODUCTION, merger_io=merger_ios.TriesAgainWhenFenced),
    "takes the peer's error for its end": replace(
        PRODUCTION, merger_io=merger_ios.TakesThePeersErrorForItsEnd
    ),
    "cuts a drain one row off": replace(PRODUCTION, replica_io=replica_ios.CutsADrainOneRowOff),
    "gives what is skipped": replace(PRODUCTION, replica_io=replica_ios.GivesWhatIsSkipped),
    "takes a failed checkpoint for written": replace(
        PRODUCTION, replica_io=replica_ios.TakesAFailedCheckpointForWritten
    ),
    "trims what has arrived": replace(PRODUCTION, replica=replicas.TrimsWhatHasArrived),
    "trims by the fastest": replace(PRODUCTION, replica=replicas.TrimsByTheFastest),
    "heeds the fastest": replace(PRODUCTION, replica=replicas.HeedsTheFastest),
    "forgets its tail": replace(PRODUCTION, replica=replicas.ForgetsItsTail),
    "claims to know all": replace(PRODUCTION, replica=replicas.ClaimsToKnowAll),
    "says only the last again": replace(PRODUCTION, replica=replicas.SaysOnlyTheLastAgain),
    "does not attach again": replace(PRODUCTION, replica=replicas.DoesNotAttachAgain),
    "stops in silence": replace(PRODUCTION, replica=replicas.StopsInSilence),
    "obeys anybody": replace(PRODUCTION, replica=replicas.ObeysAnybody),
    "takes over without the tail": replace(PRODUCTION, replica=replicas.TakesOverWithoutTheTail),
    "snapshots ahead of its state": replace(PRODUCTION, replica=replicas.SnapshotsAheadOfItsState),
    "takes over too far back": replace(PRODUCTION, replica=replicas.TakesOverTooFarBack),
    "does not hold": replace(PRODUCTION, replica=replicas.DoesNotHold),
    "takes any delivery": replace(PRODUCTION, subscriber=subscribers.TakesAnyDelivery),
    "asks once": replace(PRODUCTION, subscriber=subscribers.AsksOnce),
    "reuses offsets": replace(PRODUCTION, subscriber=subscribers.ReusesOffsets),
    "resets replace nothing": replace(PRODUCTION, subscriber=subscribers.ResetsReplaceNothing),
    "promises the farthest": replace(PRODUCTION, subscriber=subscribers.PromisesTheFarthest),
    "gives again": replace(PRODUCTION, subscriber=subscribers.GivesAgain),
    "gives too early": replace(PRODUCTION, subscriber=subscribers.GivesTooEarly),
    "counts nobody": replace(PRODUCTION, supervisor=supervisors.CountsNobody),
    "promotes at once": replace(PRODUCTION, supervisor=supervisors.PromotesAtOnce),
    "unassigns the last": replace(PRODUCTION, supervisor=supervisors.UnassignsTheLast),
    "acts beyond its term": replace(PRODUCTION, supervisor_io=supervisor_ios.ActsBeyondItsTerm),
}
