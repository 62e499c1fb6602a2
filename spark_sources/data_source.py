"""The data source `gapless`: journals for Spark, to write, to stream into, and to read.

    register(spark)
    df.write.format("gapless").mode("append").option("time", "ts")....save("data/netflow")
    df.writeStream.format("gapless").option("checkpointLocation", ...)....start("data/netflow")
    spark.read.format("gapless").load("data/netflow")

`docs/spark.md` has the options. Python on all machines must be able to import gapless, and see the
journal's directory under the same path.
"""

from __future__ import annotations

import uuid
from collections.abc import MutableMapping

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from gapless.spark_sources.options import ReadOptions, WriteOptions
from gapless.spark_sources.spark_reader import SparkReader, schema_of
from gapless.spark_sources.spark_writer import BatchWriter, Sink, StreamWriter


class GaplessSource(DataSource):
    """One use of a journal: Spark makes one for each read and write, of a stream many."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._token = uuid.uuid4().hex

    @classmethod
    def name(cls) -> str:
        """What `format()` takes."""
        return "gapless"

    def schema(self) -> StructType:
        """The journal's columns, as Spark's."""
        return schema_of(ReadOptions.of(self.options))

    def reader(self, schema: StructType) -> SparkReader:
        """Reads what is committed now."""
        return SparkReader(ReadOptions.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Takes the journal over and appends one batch."""
        options = WriteOptions.of(self.options)
        sink = Sink.opened(options, schema, overwrite=overwrite)
        return BatchWriter(sink, options.token or self._token)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802  # Spark's
        """Appends micro-batches; the query's run takes the journal over with its first."""
        options = WriteOptions.of(self.options)
        return StreamWriter(Sink.opened(options, schema, overwrite=overwrite))


def register(spark: SparkSession) -> None:
    """Makes `format("gapless")` known to a session."""
    spark.dataSource.register(GaplessSource)
