"""How far Spark is with a job, as its status tracker says: the share of its stages' tasks."""

from __future__ import annotations

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import SparkSession


def share_done(spark: SparkSession, group: str, stages: int) -> float:
    """From 0 to 1, of a group of Spark's jobs that will have about so many stages."""
    try:
        tracker = spark.sparkContext.statusTracker()
        done: dict[int, float] = {}
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                found = tracker.getStageInfo(stage)
                if found is not None and found.numTasks:
                    done[stage] = found.numCompletedTasks / found.numTasks
    except (Py4JError, OSError):  # it is ending
        return 0.0
    return min(1.0, sum(done.values()) / stages)
