"""What went wrong inside Spark, as an error that says who is at fault and what to do.

    org.apache.spark.SparkException: ... Traceback ...
      gapless.protocol.errors.Misuse: data/netflow has ended: ...        -> Misuse
    [FAILED_READ_FILE...] ... while reading file a.parquet             -> BadData: a.parquet ...
    [DIVIDE_BY_ZERO] ... Use `try_divide`                              -> Misuse: an expression ...

An error that is none of these is a mistake of ours, or the machine's. It is raised with all that
Spark says, which an error of PySpark's does not know any more once its Spark has ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
from pyspark.errors import ArithmeticException, DateTimeException, PySparkException
from pyspark.errors import NumberFormatException as NotANumber

from gapless.protocol import errors
from gapless.protocol.errors import BadData, GaplessError, Misuse
from gapless.spark_sources.job import Job

_OURS = re.compile(r"gapless\.protocol\.errors\.(\w+): ([^\n]+)")
_UNREAD = re.compile(
    r"(?:Encountered error while reading file|Path does not exist:) (?:file:/*(?=/))?(\S+?)\.\s"
)
_CAUSE = re.compile(r"Caused by: [\w.$]+: ([^\n]+)")
_FOREIGN = re.compile(r"USER_RAISED_EXCEPTION\] ([^\n]+?)(?: SQLSTATE|\n|$)")


@contextmanager
def understood(job: Job) -> Iterator[None]:
    """Raises what Spark raises as one of our errors, where it is clear which."""
    try:
        yield
    except (PySparkException, Py4JError) as e:
        text = str(e)
        known = _known(text, job) or _of_expression(e, job)
        if known is None:
            raise RuntimeError(text) from None
        raise known from None


def _known(text: str, job: Job) -> GaplessError | None:
    if ours := _OURS.search(text):
        kind = getattr(errors, ours[1], None)
        if isinstance(kind, type) and issubclass(kind, GaplessError):
            try:
                return kind(ours[2])
            except TypeError:  # one that takes more than a sentence
                return BadData(ours[2])
    if foreign := _FOREIGN.search(text):
        return BadData(foreign[1])
    if unread := _UNREAD.search(text):
        causes = _CAUSE.findall(text)
        why = f": {causes[-1]}" if causes else ""
        return BadData(
            f"{unread[1]} does not read{why}; nothing of it is in {job.out}: replace "
            "or leave out this file"
        )
    return None


def _of_expression(error: Exception, job: Job) -> Misuse | None:
    """A condition that is no answer for some row; all other expressions are ours."""
    expected = isinstance(error, ArithmeticException | DateTimeException | NotANumber)
    if not expected or not job.rules:
        return None
    said = " ".join(str(error).partition("If necessary")[0].split())
    return Misuse(
        f"a rule's expression fails for some row, and nothing was written: {said} (try_divide, "
        "try_cast and their like are null instead, and a rule does not apply where it is null)"
    )
