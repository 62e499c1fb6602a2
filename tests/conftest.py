"""What holds for every test: no Ray, no Spark, no sleep, no network; the same examples each run.

A unit test that starts a cluster, waits, or asks another machine is slow today and flaky tomorrow.
So those raise `NotInUnitTests`, at the point where the test tries:

    ray.init(), a Ray node       unless the test is marked `ray`
    a Spark session, its JVM     unless it is marked `spark`
    time.sleep                   unless it is marked with either
    connecting beyond loopback   unless it is marked with either

What a test imports, when and under which name makes no difference: `time.sleep` is replaced before
anything of ours is imported, connections and new processes raise audit events of the interpreter
that one hook sees, and the entry points of Ray and Spark are replaced as their modules are
imported. Nothing is imported for that.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import ipaddress
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, SupportsIndex

import hypothesis
import pytest

from tests import workers

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

LIFTING_MARKS = ("ray", "spark")

ENTRY_POINTS = {
    "ray._private.worker": ("ray", "init"),
    "ray._private.node": ("ray", "Node.__init__"),
    "pyspark.java_gateway": ("spark", "launch_gateway"),
}
"""Module: the mark that lifts the ban, and the function through which everything starts."""

PROGRAMS = {"gcs_server": "ray", "raylet": "ray", "ray": "ray", "spark-submit": "spark"}
"""Programs that start the same from outside, and the mark that lifts the ban."""

JAVA_MISSING = (
    "Spark needs Java 17: install a runtime (Debian, Ubuntu: apt install openjdk-17-jre-headless) "
    "or set JAVA_HOME to one"
)

JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For every Spark that a test starts. Spark's own defaults compile for a run of hours: preparing
300,000 rows takes 18 s of CPU with them and 10 s with these."""

EXAMPLES_PER_RUN = 100
"""Hypothesis examples a test: enough to find a planted fault, few enough for every merge."""
EXAMPLES_PER_QUICK_RUN = 40
"""With HYPOTHESIS_PROFILE=quick, which `make test` sets; tests/effort.py has the same share."""
EXAMPLES_PER_LONG_RUN = 5_000
"""With HYPOTHESIS_PROFILE=long, for a night or for a change to the core."""


class NotInUnitTests(BaseException):
    """A unit test tried what only a marked test may do. No `except Exception` hides it."""


_marks: frozenset[str] | None = None
"""Marks of the running test; None between tests, when nothing is forbidden."""


def _forbid(what: str, *lifted_by: str) -> None:
    if _marks is not None and not _marks.intersection(lifted_by):
        marks = " or ".join(f"@pytest.mark.{mark}" for mark in lifted_by)
        raise NotInUnitTests(f"a unit test tried to {what}; use a fake, or mark the test {marks}")


@pytest.fixture(autouse=True)
def only_what_its_marks_allow(request: pytest.FixtureRequest) -> Iterator[None]:
    """Forbids Ray, Spark, sleep and network to a test, except for what its marks lift."""
    global _marks  # noqa: PLW0603  # an audit hook cannot be removed, so it needs a switch
    marks = frozenset(m for m in LIFTING_MARKS if request.node.get_closest_marker(m))
    if "spark" in marks and not _has_java():
        pytest.fail(JAVA_MISSING, pytrace=False)
    _marks = marks
    yield
    _marks = None


# -- sleep, connections, processes ----------------------------------------------------------------

_sleep = time.sleep


def _guarded_sleep(seconds: SupportsIndex | float, /) -> None:
    # py4j leaves a thread of its own behind, which sleeps on when the test with Spark is over. And
    # Python and psutil wait for the end of a process, up to a time, with sleeps of some ms.
    caller = sys._getframe(1).f_globals["__name__"]
    is_py4j = type(threading.current_thread()).__module__.startswith("py4j.")
    if not is_py4j and caller not in {"subprocess", "psutil._psposix"}:
        _forbid("sleep", *LIFTING_MARKS)
    _sleep(seconds)


def _audit(event: str, args: Sequence[Any]) -> None:
    if _marks is None:
        return
    if event == "socket.connect" and not _is_local(args[1]):
        _forbid(f"connect to {args[1]!r}", *LIFTING_MARKS)
    elif event == "subprocess.Popen":
        program = os.path.basename(os.fsdecode(args[0]))  # noqa: PTH119  # runs in any process start
        mark = PROGRAMS.get(program)
        if mark:
            _forbid(f"start {program}", mark)


def _is_local(address: object) -> bool:
    if not isinstance(address, tuple):
        return True  # a Unix socket
    try:
        return ipaddress.ip_address(address[0]).is_loopback
    except ValueError:
        return bool(address[0] == "localhost")


# -- the entry points of Ray and Spark ------------------------------------------------------------


def _guard(module: ModuleType) -> None:
    """Makes a module's entry point ask first."""
    mark, path = ENTRY_POINTS[module.__name__]
    *owners, name = path.split(".")
    owner: Any = functools.reduce(getattr, owners, module)
    start: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(start)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        _forbid(f"start {mark.title()}", mark)
        return start(*args, **kwargs)

    setattr(owner, name, guarded)


class _GuardingLoader(Loader):
    """Loads a module as its own loader would, then guards its entry point."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _guard(module)


class _GuardingFinder:
    """Finds the modules of ENTRY_POINTS, each once, and leaves all others to the next finder."""

    def __init__(self) -> None:
        self._waiting = set(ENTRY_POINTS)

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname not in self._waiting:
            return None
        self._waiting.remove(fullname)  # find_spec below asks this finder again
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _GuardingLoader(spec.loader)
        return spec


# -- the run --------------------------------------------------------------------------------------


def pytest_configure() -> None:
    """Puts the guards in place and chooses how hard Hypothesis tries."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OPTIONS)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell started this in the background: no program that a test starts and interrupts
        # would hear of it, and the test would wait for ever.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ENTRY_POINTS:
        if name in sys.modules:
            _guard(sys.modules[name])
    sys.meta_path.insert(0, _GuardingFinder())
    sys.addaudithook(_audit)
    time.sleep = _guarded_sleep
    # No deadline: two busy cores are slower than one person's laptop, and that is not a fault.
    hypothesis.settings.register_profile(
        "gate", derandomize=True, deadline=None, max_examples=EXAMPLES_PER_RUN
    )
    hypothesis.settings.register_profile(
        "quick", derandomize=True, deadline=None, max_examples=EXAMPLES_PER_QUICK_RUN
    )
    hypothesis.settings.register_profile(
        "long", deadline=None, max_examples=EXAMPLES_PER_LONG_RUN, print_blob=True
    )
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))
    from gapless.protocol import frame  # only now: see above

    frame.CHECKS_MADE = True


# -- several workers ------------------------------------------------------------------------------


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Which worker takes which file: tests/workers.py."""
    return workers.scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers begin with what takes longest, so that none is left alone with it at the end."""
    if hasattr(config, "workerinput"):
        # A scope comes where its first test is, so that all of a file's tests sort as one.
        ranks: dict[str, int] = {}
        for item in items:
            scope = workers.scope_of(item.nodeid)
            rank = workers.rank_of(item.nodeid, [mark.name for mark in item.iter_markers()])
            ranks[scope] = min(ranks.get(scope, rank), rank)
        items.sort(key=lambda item: ranks[workers.scope_of(item.nodeid)])


def pytest_collection_finish() -> None:
    """What is imported and collected stays to the end: collections of garbage need not look at it.
    Where all tests are there, one that does takes a tenth of a second and more.
    """
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where several workers share the files: those that take longest."""
    if getattr(terminalreporter.config.option, "numprocesses", None):
        told = [r for of in terminalreporter.stats.values() for r in of]
        longest = workers.longest_files(r for r in told if isinstance(r, pytest.TestReport))
        terminalreporter.section(f"longest {len(longest)} files")
        for file, seconds in longest:
            terminalreporter.write_line(f"{seconds:.0f}s {file}")


def _has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else None) is not None


def pytest_report_header() -> list[str]:
    """Says which kernel is tested, how hard, and what this machine lacks."""
    from gapless.kernels import KERNEL

    profile = os.environ.get("HYPOTHESIS_PROFILE", "gate")
    lines = [f"gapless kernel: {KERNEL}, hypothesis profile: {profile}"]
    if not _has_java():
        lines.append(f"no Java: {JAVA_MISSING}")
    return lines
