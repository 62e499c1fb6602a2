"""A Spark of one's own, which leaves nothing behind; and a session of any Spark with our settings.

    with embedded(cores=2, driver_memory="2g") as spark:     JVM on loopback, no UI, no ports beyond
        prepare(spark, "flows.parquet", "data/netflow", ...)
    ...                                                      JVM ended, its directory removed

What Spark prints goes to a file in that directory: an error that a person can mend is raised as one
sentence, and the last lines of the file come with a Spark that did not start.

`private` gives a session beside the caller's, with its own settings, on the same Spark: what
`prepare` relies on (UTC, exact casts, names in their own case) does not depend on what the caller
has set, and changes nothing for the caller.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import TYPE_CHECKING, Any, cast

from gapless.protocol.errors import Misuse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_MEMORY = "2g"
"""Of the embedded Spark, tasks included: they sort on disk, so it does not grow with the input."""
END_WAIT_S = 20.0
"""How long the JVM may take to end by itself; then it is killed."""
LOG_CHARS_MAX = 2_000
"""Of what a Spark that did not start has printed."""
RECORDS_PER_ARROW_BATCH = 1 << 16
"""Rows that cross from the JVM to Python at once: as many as the journal cuts into records."""

JAVA_MISSING = (
    "Spark needs Java 17 or later, and none is found: install it (Debian, Ubuntu: apt install "
    "openjdk-17-jre-headless), or set JAVA_HOME; `gapless doctor` shows what Spark would run"
)

SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",  # times with and without a zone are the same ticks
    "spark.sql.ansi.enabled": "true",  # a sum that overflows is an error, and not another number
    "spark.sql.caseSensitive": "true",  # a journal's names are
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # Spark has microseconds; casts.py divides
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(RECORDS_PER_ARROW_BATCH),
    "spark.sql.optimizer.enableCsvExpressionOptimization": "false",  # a line is whole or malformed
    "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
}
_MEMORY = re.compile(r"[1-9][0-9]{0,6}[mgt]")


@contextmanager
def private(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of the same Spark with `SETTINGS`, and the data source `gapless` in it.

    It is the active one of this thread meanwhile: Spark looks for data sources in that.
    """
    from gapless.spark_sources.data_source import register

    session: Any = spark.newSession()
    sessions = session._jvm.org.apache.spark.sql.SparkSession
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    sessions.setActiveSession(session._jsparkSession)
    try:
        register(session)
        yield session
    finally:
        sessions.setActiveSession(cast("Any", spark)._jsparkSession)


@contextmanager
def embedded(
    *,
    cores: int | None = None,
    driver_memory: str = DRIVER_MEMORY,
    master: str | None = None,
) -> Iterator[SparkSession]:
    """A Spark for this process: here, on so many cores (all by default), or a cluster's.

    When it ends, also by an exception, no process and no file of it is left.
    """
    _check(cores, driver_memory, master)
    directory = Path(tempfile.mkdtemp(prefix="gapless-spark-"))
    try:
        settings = _settings(directory, cores, driver_memory, master)
        with _quiet(), _this_python(), _jvm(settings, directory / "spark.log") as gateway:
            spark = _started(settings, gateway, master)
            try:
                yield spark
            finally:
                spark.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _check(cores: int | None, driver_memory: str, master: str | None) -> None:
    from pyspark import SparkContext

    if cores is not None and not 1 <= cores <= 1024:
        raise Misuse(f"cores {cores}: 1 to 1024")
    if master is not None and cores is not None:
        raise Misuse("cores are of the embedded Spark; a cluster has its own")
    if not _MEMORY.fullmatch(driver_memory):
        raise Misuse(f"driver memory {driver_memory!r}: write it as 512m or 2g")
    if SparkContext._gateway is not None or os.environ.get("PYSPARK_GATEWAY_PORT"):
        raise Misuse("this process has a Spark already: give its session to `prepare`")
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        raise Misuse(JAVA_MISSING if home is None else f"JAVA_HOME is {home}: {JAVA_MISSING}")


def _settings(
    directory: Path, cores: int | None, driver_memory: str, master: str | None
) -> dict[str, str]:
    settings = {
        "spark.app.name": "gapless prepare",
        "spark.master": master or f"local[{cores or len(os.sched_getaffinity(0))}]",
        "spark.driver.memory": driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={directory} -XX:-UsePerfData",
    }
    if master is None:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps PySpark from printing every error as JSON before it raises it."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")  # a plain one fails later errors
    was, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was


@contextmanager
def _this_python() -> Iterator[None]:
    """Lets Spark's workers be this Python, unless somebody has said which they are to be."""
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        del os.environ["PYSPARK_PYTHON"]


@contextmanager
def _jvm(settings: Mapping[str, str], log: Path) -> Iterator[Any]:
    """The JVM of Spark's driver; ends with the block, and by itself should this process die."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with log.open("wb") as out:
        try:
            start: Any = launch_gateway  # which has no types
            gateway = start(conf, {"stdout": out, "stderr": out})
        except PySparkRuntimeError:
            raise Misuse(f"Spark did not start: {_end_of(log)}") from None
    try:
        yield gateway
    finally:
        gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        _end(gateway.proc)


def _started(settings: Mapping[str, str], gateway: Any, master: str | None) -> SparkSession:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False, _jvm=gateway.jvm).setAll(list(settings.items()))
    try:
        context = SparkContext(gateway=gateway, conf=conf)
        context.setLogLevel("ERROR")
        return SparkSession(context)
    except Py4JError as e:
        where = f"no Spark of {master} (is it there, and reachable?)" if master else "no Spark"
        raise Misuse(f"{where}: {_reason(e)}") from None


def _end(process: Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()  # at whose end the JVM exits
    try:
        process.wait(END_WAIT_S)
    except TimeoutExpired:
        process.kill()
        process.wait()


def _end_of(log: Path) -> str:
    text = log.read_text(errors="replace").strip()
    thrown = [line for line in text.splitlines() if "Exception" in line or "Error" in line]
    return (thrown[0] if thrown else text[-LOG_CHARS_MAX:]) or "it printed nothing"


def _reason(error: BaseException) -> str:
    """What an error of the JVM says, without its stack."""
    thrown = getattr(error, "java_exception", None)
    text = str(error if thrown is None else thrown.toString())
    return " ".join(text.partition("\n")[0].split())[:LOG_CHARS_MAX]
