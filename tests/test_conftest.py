"""The guards of conftest.py, each shown to hold and to be lifted by the mark that lifts it."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from time import sleep as sleep_by_another_name

import hypothesis
import psutil
import pytest

from tests.conftest import (
    EXAMPLES_PER_QUICK_RUN,
    EXAMPLES_PER_RUN,
    JAVA_MISSING,
    NotInUnitTests,
    _is_local,
)
from tests.effort import cases


def test_ray_does_not_start() -> None:
    import ray

    with pytest.raises(NotInUnitTests, match=r"start Ray; use a fake.*mark\.ray"):
        ray.init()


def test_ray_does_not_start_by_itself_at_the_first_call() -> None:
    import ray

    with pytest.raises(NotInUnitTests):
        ray.put(1)


def test_a_ray_node_does_not_start() -> None:
    from ray.cluster_utils import Cluster

    with pytest.raises(NotInUnitTests):
        Cluster(initialize_head=True)


@pytest.mark.ray
def test_the_mark_of_ray_lifts_the_ban_on_ray() -> None:
    import ray

    # An address that Ray refuses by itself: enough to see that the call got through.
    with pytest.raises(ValueError, match="resources"):
        ray.init(address="127.0.0.1:1", resources={"CPU": 1})


@pytest.fixture
def no_spark_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests before may have started Spark in this process, and left it for those that follow."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    for name in ("_active_spark_context", "_gateway", "_jvm"):
        monkeypatch.setattr(SparkContext, name, None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)


@pytest.mark.usefixtures("no_spark_yet")
def test_spark_does_not_start() -> None:
    from pyspark.sql import SparkSession

    with pytest.raises(NotInUnitTests, match=r"start Spark; use a fake.*mark\.spark"):
        SparkSession.builder.getOrCreate()


@pytest.mark.usefixtures("no_spark_yet")
def test_a_spark_context_does_not_start() -> None:
    from pyspark import SparkContext

    with pytest.raises(NotInUnitTests):
        SparkContext("local[1]", "test")


@pytest.mark.ray
@pytest.mark.usefixtures("no_spark_yet")
def test_the_mark_of_ray_does_not_lift_the_ban_on_spark() -> None:
    from pyspark import SparkContext

    with pytest.raises(NotInUnitTests):
        SparkContext("local[1]", "test")


@pytest.mark.parametrize("program", ["ray", "/opt/ray/raylet", "spark-submit"])
def test_their_programs_do_not_start(program: str) -> None:
    with pytest.raises(NotInUnitTests, match="start"):
        subprocess.run([program], check=True)


def test_other_programs_start() -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


def test_nobody_sleeps() -> None:
    with pytest.raises(NotInUnitTests, match="sleep"):
        time.sleep(0)


def test_no_handler_of_exceptions_hides_it() -> None:
    assert not issubclass(NotInUnitTests, Exception)


def test_nobody_sleeps_under_another_name() -> None:
    with pytest.raises(NotInUnitTests, match="sleep"):
        sleep_by_another_name(0)


def test_a_process_may_be_waited_for() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.001)
        with pytest.raises(psutil.TimeoutExpired):
            psutil.Process(process.pid).wait(0.001)
        process.communicate(b"\n")


@pytest.mark.ray
def test_a_marked_test_may_sleep() -> None:
    time.sleep(0)


def test_a_thread_of_a_test_does_not_sleep_either() -> None:
    raised: list[BaseException] = []

    def nap() -> None:
        try:
            time.sleep(0)
        except NotInUnitTests as e:
            raised.append(e)

    thread = threading.Thread(target=nap)
    thread.start()
    thread.join()
    assert raised


def test_nobody_connects_beyond_this_machine() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s,
        pytest.raises(NotInUnitTests, match="connect"),
    ):
        s.connect(("192.0.2.1", 9))  # an address set aside for documentation


def test_this_machine_may_be_reached() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", 9))


@pytest.mark.parametrize(
    ("address", "local"),
    [
        (("127.8.0.1", 1), True),
        (("::1", 1, 0, 0), True),
        (("localhost", 1), True),
        ("/a/unix/socket", True),
        (("10.0.0.1", 1), False),
        (("example.org", 1), False),
    ],
)
def test_what_counts_as_this_machine(address: object, local: bool) -> None:
    assert _is_local(address) == local


@pytest.mark.parametrize(
    ("name", "examples"), [("gate", EXAMPLES_PER_RUN), ("quick", EXAMPLES_PER_QUICK_RUN)]
)
def test_hypothesis_tries_the_same_examples_each_run_however_slow_the_machine_is(
    name: str, examples: int
) -> None:
    profile = hypothesis.settings.get_profile(name)
    assert profile.derandomize
    assert profile.deadline is None
    assert profile.max_examples == examples


@pytest.mark.parametrize(("profile", "played"), [("quick", 40), ("gate", 100), ("long", 100)])
def test_loops_over_seeds_are_as_quick_as_hypothesis(
    profile: str, played: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPOTHESIS_PROFILE", profile)
    assert cases(100) == played
    assert cases(EXAMPLES_PER_RUN) in (EXAMPLES_PER_QUICK_RUN, EXAMPLES_PER_RUN)


def test_a_missing_java_is_said_in_one_sentence_that_says_what_to_install() -> None:
    assert "install" in JAVA_MISSING
    assert "17" in JAVA_MISSING
    assert "\n" not in JAVA_MISSING
