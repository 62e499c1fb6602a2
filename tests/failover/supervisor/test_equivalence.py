"""Which plans may take each other's place, and that what is claimed of outputs holds of them."""

from collections import Counter
from collections.abc import Callable

import pytest

from gapless.engine import nodes
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.engine.splice import Runnable, Splice
from gapless.failover.supervisor import equivalence as equivalent
from gapless.failover.supervisor.equivalence import (
    check_changed,
    check_equivalent,
    check_fits,
    merge_case,
    successors,
)
from gapless.operators.aggregates import calls
from gapless.operators.normalise import Normalise
from gapless.protocol.errors import NotEquivalent
from gapless.protocol.expr import col
from gapless.protocol.tdb import Event, Tdb
from tests.engine.oracles.cases import Case, seeds
from tests.engine.oracles.running import run

COLUMNS = {"ts": "int64", "k": "int64", "v": "int64"}


def flows(**changed: object) -> Query:
    options: dict[str, object] = {"time": "ts", "lateness": 5, **changed}
    columns = options.pop("columns", COLUMNS)
    return source("flows", columns, **options)  # type: ignore[arg-type]  # some are wrong on purpose


def counted(rows: Query, slide: int = 5) -> Query:
    return rows.window(range=10, slide=slide).group_by("k").aggregate(n=calls.count())


def pair(left: Query, right: Query) -> tuple[Plan, Plan]:
    return Plan(left), Plan(right, "wid")


def test_plans_of_one_query_are_equivalent_and_nothing_is_left_open() -> None:
    assert check_equivalent(*pair(counted(flows()), counted(flows()))) == ()
    query = flows().lifetime(end="v")
    assert check_equivalent(*pair(query, query)) == ()


def mean(rows: Query) -> Query:
    floats = rows.select("ts", "k", v=col("v").cast("float64"))
    return floats.window(range=10, slide=5).group_by("k").aggregate(m=calls.sum_("v"))


TWO = col("k") > 1, col("v") > 2
SHORT = flows().lifetime(duration=7)


@pytest.mark.parametrize(
    ("left", "right", "difference"),
    [
        (
            counted(flows().where(TWO[0]).where(TWO[1])),
            counted(flows().where(TWO[0] & TWO[1])),
            r"where \(v > 2\) in the old plan, where \(\(k > 1\) & \(v > 2\)\) in the new one",
        ),
        (
            SHORT.normalise().where(col("k") > 1),
            flows().where(col("k") > 1).lifetime(duration=7).normalise(),
            r"where \(k > 1\) in the old plan, normalise in the new one",
        ),
        (
            flows().window(range=30, slide=5).group_by("k").aggregate(n=calls.count()),
            flows().window(range=60, slide=5).group_by("k").aggregate(n=calls.count()),
            "window range 30 ms, slide 5 ms in the old plan, window range 60 ms, slide 5 ms in the",
        ),
        (
            SHORT,
            flows().where(col("k") > 1).lifetime(duration=7),
            r"source flows .* in the old plan, where \(k > 1\) in the new one",
        ),
        (SHORT, flows().lifetime(duration=8), "lifetime 7 ms in the old plan, lifetime 8 ms in"),
        (SHORT, SHORT.normalise(), "lifetime 7 ms in the old plan, normalise in the new one"),
        (
            mean(flows()),
            mean(flows().where(col("k") > 0)),
            r"source flows .* in the old plan, where \(k > 0\) in the new one",
        ),
    ],
)
def test_what_cannot_be_known_to_be_equal_is_refused_unless_somebody_gives_their_word(
    left: Query, right: Query, difference: str
) -> None:
    with pytest.raises(NotEquivalent, match=f"cannot be known: {difference}.*assume-equivalent"):
        check_equivalent(*pair(left, right))
    taken, *_ = check_equivalent(*pair(left, right), assumed=True)
    assert "cannot be known" in taken


def test_whatever_may_diverge_is_said() -> None:
    plans = pair(mean(flows()), mean(flows().where(col("k") > 0)))
    found = check_equivalent(*plans, assumed=True)
    assert any("replicas may diverge" in sentence for sentence in found)


@pytest.mark.parametrize(
    ("left", "right", "why"),
    [
        (counted(flows()), counted(flows(), 10), "steps of 5.*steps of 10.*normalise"),
        (counted(flows()), counted(flows()).normalise(), "steps of 5.*normal form"),
        (flows().select("k"), flows().select("v"), "the old plan gives"),
        (
            counted(flows()),
            counted(flows(time_unit="s")),
            "time unit is ms in the old plan, s in the new",
        ),
        (counted(flows()), counted(flows(lateness=6)), "source 'flows' is described in two ways"),
        (
            counted(flows()),
            counted(source("other", COLUMNS, time="ts", lateness=5)),
            "reads flows, the new one other",
        ),
    ],
)
def test_what_is_known_to_differ_is_said_and_nobodys_word_changes_it(
    left: Query, right: Query, why: str
) -> None:
    for assumed in (False, True):
        with pytest.raises(NotEquivalent, match=why):
            check_equivalent(*pair(left, right), assumed=assumed)


def test_splices_are_equivalent_where_they_change_at_the_same_times() -> None:
    paned, wid = pair(counted(flows()), counted(flows()))
    other = Plan(counted(flows(), 10))
    assert check_equivalent(Splice(paned, other, 50), Splice(wid, other, 50)) == ()
    for new in (Splice(wid, other, 60), wid, Splice(wid, paned, 50)):
        with pytest.raises(NotEquivalent):
            check_equivalent(Splice(paned, other, 50), new)


def test_all_plans_of_one_cutover_give_the_same_also_where_the_query_changes() -> None:
    old, new = Plan(counted(flows())), counted(flows().where(col("k") > 1), 10)
    same = {"a": Plan(new), "b": Plan(new, "wid")}
    wanted, taken = successors(old, same, 50)
    assert [type(plan) for plan in wanted.values()] == [Splice, Splice]
    assert taken == ()
    parted: dict[str, Runnable] = {**same, "c": Plan(counted(flows().where(col("k") > 2), 10))}
    with pytest.raises(NotEquivalent, match=r"where \(k > 1\) in the old plan"):
        successors(old, parted, 50)
    assert len(successors(old, parted, 50, assumed=True)[1]) == 1
    with pytest.raises(NotEquivalent):
        successors(old, same, None)
    assert successors(old, {"w": Plan(counted(flows()), "wid")}, None)[1] == ()


def test_a_changed_query_needs_the_same_schema_and_sources_of_one_description() -> None:
    old = Plan(counted(flows()))
    elsewhere = source("quotes", COLUMNS, time="ts", lateness=5)
    check_changed(old, Plan(counted(flows().where(col("k") > 1), 10)))
    check_changed(Splice(old, Plan(counted(flows(), 10)), 9), Plan(counted(elsewhere)))
    for new in (flows().select("k"), counted(flows(lateness=1)), counted(flows(time_unit="s"))):
        with pytest.raises(NotEquivalent):
            check_changed(old, Plan(new))


def test_a_plan_keeps_what_its_job_has_promised() -> None:
    steps, rows = Plan(counted(flows())), Plan(flows().lifetime(duration=7))
    check_fits("steps", steps, insert_only=True, case="r3")
    check_fits("rows", rows, insert_only=True, case="r4")
    with pytest.raises(NotEquivalent, match=r"plan rows: .*start a job of case r4"):
        check_fits("rows", rows, insert_only=True, case="r3")
    revised = Plan(flows().lifetime(duration=7).normalise())
    with pytest.raises(NotEquivalent, match="never does"):
        check_fits("revised", revised, insert_only=True, case="r4")
    assert (merge_case(steps), merge_case(rows)) == ("r3", "r4")


def test_from_a_change_on_a_key_needs_more_than_before_it() -> None:
    """All that is alive at T starts at T: rows of one key that overlap are told apart no more."""
    steps = Plan(counted(flows()))
    keyed = Plan(flows().latest_by("k").select("k", n=col("v")))
    apart = Plan(flows().latest_by("k").select("k", "v", "ts"))
    assert merge_case(Splice(apart, Plan(flows().latest_by("k").select("v", "ts", "k")), 9)) == "r3"
    assert keyed.query.properties.unique is not None
    assert merge_case(Splice(steps, keyed, 9)) == "r3"
    overlapping = Plan(counted(flows()).lifetime(duration=50))
    assert overlapping.query.properties.key
    assert merge_case(Splice(overlapping, steps, 9)) == "r3"
    assert merge_case(Splice(steps, overlapping, 9)) == "r4"


# -- what is claimed is true ----------------------------------------------------------------------


def normalised(table: Tdb) -> Tdb:
    out = Tdb(table.schema)
    frame = table.to_frame()
    if len(frame):
        out.fold(Normalise(table.schema).push(0, frame.with_stable(None)).frame)
    return out


def check_claims(many: range) -> Counter[str]:
    """Runs random queries and looks whether their tables are what is claimed of them."""
    seen: Counter[str] = Counter()
    for seed in many:
        case = Case.draw(seed)
        plan = case.plan()
        table = run(plan, case.told()).tdb
        form = equivalent._form(plan)
        seen["none" if form is None else "steps" if form else "normal"] += 1
        if form == 0:
            assert table == normalised(table), case.outline()
        elif form is not None:
            assert all(e.ve - e.vs == form and e.vs % form == 0 for e in table.events)
        if merge_case(Splice(plan, plan, 20)) == "r3":
            seen["key"] += 1
            after = [Event(e.payload, max(e.vs, 20), e.ve) for e in table.events if e.ve > 20]
            assert len({(e.payload, e.vs) for e in after}) == len(after), case.outline()
    return seen


def test_tables_have_the_form_and_the_key_that_is_claimed_of_them() -> None:
    seen = check_claims(seeds(120, start=410_000))
    assert all(seen[what] > 4 for what in ("none", "steps", "normal", "key")), seen


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_is_normal", lambda node, _: not isinstance(node, nodes.Source)),
        ("_has_key", lambda _: True),
    ],
)
def test_claims_that_go_too_far_are_caught(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: Callable[..., bool]
) -> None:
    monkeypatch.setattr(equivalent, name, wrong)
    with pytest.raises(AssertionError):
        check_claims(seeds(120, start=410_000))
