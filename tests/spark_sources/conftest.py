"""One Spark for the folder: `make test` gives all its files to one worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def shared_spark() -> Iterator[SparkSession]:
    """A Spark that runs until the tests end; files of tests take sessions of it."""
    from tests.spark_sources.sparks import running_spark

    with running_spark() as spark:
        yield spark
