"""What a session of Spark leaves behind in the process that has had one."""

from __future__ import annotations

from pyspark.logger import PySparkLogger

from gapless.spark_sources.session import _quiet


def test_errors_of_spark_can_be_logged_by_it_after_they_were_kept_quiet() -> None:
    with _quiet():
        quiet = PySparkLogger.getLogger("SQLQueryContextLogger")
        assert quiet.disabled
    assert isinstance(quiet, PySparkLogger)
    assert not quiet.disabled
