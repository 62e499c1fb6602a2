"""What people and programs are shown of a job, made of what a root tells."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from gapless.actors.host import About
from gapless.actors.views import Alarm, JobView
from gapless.commands.fitted_tables import Column, FittedTable
from gapless.commands.foreground import Seen
from gapless.commands.job_views import (
    ALARMS_SHOWN_MAX,
    described,
    durable,
    is_whole,
    listed,
    shown,
    summary,
)
from gapless.failover.job.desired import Desired
from gapless.failover.job.state import JobState, SlotState
from gapless.failover.messages import Life
from gapless.failover.statuses import DivergenceReport, Rejoin
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.text import DEFAULT_SCHEMA

NODE = "5f3a" * 14
AT = "10.0.0.1:6379"


def a_life(slot: str) -> Life:
    return Life(slot, Incarnation(2, 7))


REPLICA = SlotState(
    "r0.0",
    "running",
    a_life("r0.0"),
    NODE,
    "wide",
    "",
    None,
    stable=61_000,
    lag=2_500,
    lead_share=0.75,
    jumped_ms=4_000,
    origin="checkpoint 0-wide-1-3",
    rejoin=Rejoin(120, 140, 310),
    qualified_ms=420,
)
MERGER = SlotState(
    "m0.0", "running", a_life("m0.0"), NODE, "", "", None, 62_000, durable_stable=61_500, inputs=2
)


def view_of(*slots: SlotState, alarms: int = 0, desired: Desired | None = None) -> JobView:
    """A job with these slots; by default one replica and one merger are desired."""
    root = Life("supervisor", Incarnation(2, 0))
    state = JobState(2, False, "running", "", (("m0.0",),), slots)
    told = tuple(Alarm(1_000 * i, "m0.0/2.7", f"alarm number {i}") for i in range(alarms))
    desired = Desired(1, ("wide",)) if desired is None else desired
    nodes = {NODE: "host-a"}
    about = About(root, NODE, 1)
    return JobView(
        "job", "/jobs/job", state, desired, nodes, {}, told, about, 9_000, AT, DEFAULT_SCHEMA
    )


def text_of(view: JobView) -> str:
    return printed(*shown(view, "ms"))


def printed(*parts: RenderableType) -> str:
    """As a wide window would show them."""
    out = StringIO()
    Console(file=out, width=220).print(*parts, sep="\n")
    return out.getvalue()


def test_a_table_has_where_each_is_how_far_and_how_it_came_back() -> None:
    text = text_of(view_of(MERGER, REPLICA, alarms=ALARMS_SHOWN_MAX + 3))
    for wanted in ("r0.0/2.7", "host-a", "wide", "1970-01-01T00:01:01.000", "2500 ms", "75%"):
        assert wanted in text
    assert "checkpoint 0-wide-1-3" in text
    assert "120/140/310/420" in text
    assert "3 alarms before these" in text
    assert "alarm number 10" in text
    assert "alarm number 2" not in text


def lines_of(width: int, *parts: RenderableType) -> list[str]:
    out = StringIO()
    Console(file=out, width=width).print(*parts, sep="\n")
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 200, 240])
def test_a_job_fits_the_window_and_says_what_was_left_out(width: int) -> None:
    lame = replace(REPLICA, slot="r0.1", life=a_life("r0.1"), reason="it is slow " * 9)
    hosts = {a_life(slot): About(a_life(slot), NODE, 4711) for slot in ("r0.0", "m0.0")}
    view = replace(view_of(MERGER, REPLICA, lame), hosts=hosts)
    parts = [part for part in shown(view, "ms") if not isinstance(part, str)]
    lines = lines_of(width, *parts)
    assert max(map(len, lines)) <= width
    rows = [line for line in lines if "r0.0" in line]
    assert len(rows) == 1, "no cell is folded that names something"
    assert "running" in rows[0]
    assert "4711" in rows[0]
    assert any("4711" in line and "m0.0" in line for line in lines)
    if width >= 80:
        assert "1970-01-01T00:01:01.000" in rows[0]
    assert any("has also: " in line for line in lines) == (width < 200)
    listing = lines_of(width, listed([(AT, "job", view), (AT, "lame", "its root is gone " * 9)]))
    assert max(map(len, listing)) <= width


def test_what_matters_least_is_left_out_first() -> None:
    worths = {"a": 0, "b": 2, "c": 1, "d": 3}
    columns = [Column(name, ("xxxxxxx",), worth) for name, worth in worths.items()]
    table = FittedTable(tuple(columns))
    for width, shown_ in ((41, "abcd"), (40, "abc"), (31, "abc"), (30, "ac"), (21, "ac"), (1, "a")):
        kept, hidden = table.fitting(width)
        assert "".join(column.name for column in kept) == shown_, width
        assert {*kept, *hidden} == {*columns}
    assert lines_of(31, table)[-1] == "also: d"
    assert lines_of(60, table)[-1].startswith("└")


def test_a_document_says_the_same_to_programs() -> None:
    document = json.loads(json.dumps(described(view_of(MERGER, REPLICA, alarms=1), "ms")))
    (replica,), (merger,) = document["replicas"], document["mergers"]
    assert replica["rejoin"] == {
        "from": "checkpoint 0-wide-1-3",
        "state_ms": 120,
        "read_ms": 140,
        "attached_ms": 310,
        "qualified_ms": 420,
    }
    assert replica["pid"] is None, "its process is not known yet"
    assert (replica["node"], replica["lag"], replica["lead_share"]) == ("host-a", "2500 ms", 0.75)
    assert merger["durable"] == "1970-01-01T00:01:01.500"
    assert document["whole"]
    assert document["alarms"][0]["what"] == "alarm number 0"


@pytest.mark.parametrize("state", ["failed", "empty", "starting", "joining", "suspected"])
def test_a_job_is_not_whole_while_one_that_should_run_does_not(state: str) -> None:
    lame = replace(REPLICA, state=state, life=None, reason="it dies each time")
    view = view_of(MERGER, lame)
    assert not is_whole(view)
    assert "0 of 1 replicas" in summary(view, "ms")
    assert "it dies each time" in text_of(view)
    assert is_whole(view_of(MERGER, REPLICA))
    assert not is_whole(view_of(MERGER, REPLICA, desired=Desired(2, ("wide",))))


def test_an_output_is_as_durable_as_its_slowest_merger() -> None:
    view = view_of(MERGER, replace(MERGER, slot="m0.1", durable_stable=3_000), REPLICA)
    assert durable(view, "ms") == "1970-01-01T00:00:03.000"
    assert durable(view_of(replace(MERGER, durable_stable=INF)), "ms") == "end"
    assert "nothing yet" in summary(view_of(replace(MERGER, durable_stable=BEGIN)), "ms")


def test_a_view_is_short_in_a_shell_and_a_table_in_a_notebook() -> None:
    view = view_of(MERGER, REPLICA)
    assert repr(view) == "JobView(job: 1 of 1 replicas, 1 of 1 mergers)"
    html = view._repr_html_()
    assert "<td>r0.0</td><td>running</td><td>host-a</td>" in html
    assert AT in html


def test_jobs_are_listed_with_those_that_do_not_answer() -> None:
    lame = AT, "lame", "its root is gone"
    text = printed(listed([(AT, "job", view_of(MERGER, REPLICA)), lame]))
    assert "1/1" in text
    assert "its root is gone" in text


@pytest.mark.parametrize(
    ("because", "asked", "samples", "is_problem"),
    [
        ("it was asked to drain", False, 0, False),
        ("replicas disagree", False, 0, True),
        ("replicas disagree", True, 0, False),
        ("", True, 1, True),
    ],
)
def test_a_job_that_diverged_or_ended_by_itself_is_a_problem(
    because: str, asked: bool, samples: int, is_problem: bool
) -> None:
    view = view_of(MERGER, REPLICA)
    odd = DivergenceReport(a_life("r0.0"), None, 5, "two versions")
    state = replace(view.state, ended_because=because, samples=(odd,) * samples)
    seen = Seen(replace(view, state=state), "stopped", 1.0, asked)
    assert seen.is_problem is is_problem
