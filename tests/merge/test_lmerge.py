"""What a caller sees of LMerge beside its output: statistics, divergences, snapshots."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from gapless.merge import divergence, in_order, membership
from gapless.merge.choose import StreamProperties
from gapless.merge.divergence import SAMPLES_MAX
from gapless.merge.in_order import InOrder
from gapless.merge.lmerge import LMerge
from gapless.merge.membership import DetachedInput
from gapless.merge.policy import Policy, lag, quorum
from gapless.merge.snapshot import Snapshot
from gapless.protocol import documents
from gapless.protocol.elements import BEGIN, INF, Adjust
from gapless.protocol.errors import DecodeError, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import Telling, random_tdb, random_telling, tell
from tests.merge.helpers import PAYLOADS, TIES, frame, say

# -- statistics -------------------------------------------------------------------------------


def test_statistics_say_who_leads_and_what_went_out() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    a, b = merge.attach(), merge.attach()
    say(merge, a, "ins(A,1,5) stable(3)")
    say(merge, a, "adj(A,1,5,7) stable(6)")
    say(merge, b, "ins(A,1,7) stable(2)")
    say(merge, a, "stable(9)")
    say(merge, b, "stable(10)")
    stats = merge.stats
    assert (stats.inserts, stats.adjusts, stats.stables) == (1, 1, 4)
    assert stats.inputs[a].elements == 5
    assert stats.inputs[a].lead_share == 0.75
    assert stats.inputs[a].lag == 1
    assert stats.inputs[b].lag == 0
    assert stats.live_keys == 0
    assert stats.state_bytes == merge.nbytes > 0


def test_several_rounds_of_one_push_put_out_one_stable() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    a, late = merge.attach(), merge.attach(join_at=10)
    say(merge, late, "stable(20)")
    assert say(merge, a, "stable(15)") == "stable(20)"
    stats = merge.stats
    assert stats.stables == 1
    assert (stats.inputs[a].lead_share, stats.inputs[late].lead_share) == (0.5, 0.5)


def test_rows_that_say_nothing_new_are_counted_as_dropped() -> None:
    for case in ("r0", "r1", "r2", "r3", "r4"):
        merge = LMerge(DEFAULT_SCHEMA, case)
        a, b = merge.attach(), merge.attach()
        say(merge, a, "ins(A,1,5) ins(B,2,5) stable(9)")
        say(merge, b, "ins(A,1,5) ins(B,2,5)")
        assert merge.stats.inputs[b].dropped == 2, case


# -- divergence -------------------------------------------------------------------------------


def test_two_final_versions_are_a_divergence_with_both_of_them() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    a, b = merge.attach(), merge.attach()
    say(merge, b, "ins(A,1,7)")
    say(merge, a, "ins(A,1,5) stable(9)")
    assert merge.divergences.count == 0, "b may still come round"
    say(merge, b, "stable(8)")
    assert merge.divergences.count == 1
    (sample,) = merge.divergences.samples
    assert str(sample) == (
        "A from 1: input 1 says it ends at 7, the output has promised it ends at 5"
    )


def test_an_input_that_comes_round_has_not_diverged() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    a, b = merge.attach(), merge.attach()
    say(merge, b, "ins(A,1,7) ins(B,1,7)")
    say(merge, a, "ins(A,1,5) stable(9)")
    say(merge, b, "adj(A,1,7,6) adj(A,1,6,5) adj(B,1,7,1) stable(8)")
    assert merge.divergences.count == 0


def test_an_event_that_only_a_slower_input_has_is_a_divergence_once_it_stays_with_it() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    a, b = merge.attach(), merge.attach()
    say(merge, b, "ins(A,1,7)")
    say(merge, a, "stable(9)")
    say(merge, b, "stable(8)")
    (sample,) = merge.divergences.samples
    assert sample.output_ve == sample.vs


def test_an_input_that_was_told_what_is_settled_may_stop_in_the_middle_of_it() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    a, b = merge.attach(), merge.attach()
    say(merge, b, "ins(A,1,7)")
    say(merge, a, "ins(A,1,5) stable(9)")
    assert merge.feedback(b) == 9
    say(merge, b, "stable(9)")
    assert merge.divergences.count == 0


def test_feedback_that_is_capped_excuses_only_what_it_covers() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    a, b = merge.attach(), merge.attach()
    say(merge, b, "ins(A,1,4) ins(B,1,7)")
    say(merge, a, "ins(A,1,3) ins(B,1,6) stable(9)")
    assert merge.feedback(b, at_most=5) == 5
    say(merge, b, "stable(9)")
    (sample,) = merge.divergences.samples
    assert sample.payload == ("B",)


def test_a_detached_input_leaves_no_questions() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    a, b = merge.attach(), merge.attach()
    size = merge.nbytes
    say(merge, b, "ins(A,1,7)")
    say(merge, a, "ins(A,1,5) stable(9)")
    merge.detach(b)
    assert merge.nbytes <= size


def test_questions_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergence, "QUESTIONS_MAX", 3)
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    a, b = merge.attach(), merge.attach()
    say(merge, b, " ".join(f"ins(k{i},1,7)" for i in range(5)))
    say(merge, a, "stable(9)")
    assert merge.divergences.unasked == 2
    say(merge, b, "stable(8)")
    assert merge.divergences.count == 3


def test_samples_are_bounded() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    a, b = merge.attach(), merge.attach()
    many = " ".join(f"ins(k{i},1,7)" for i in range(2 * SAMPLES_MAX))
    say(merge, b, many)
    say(merge, a, "stable(9)")
    say(merge, b, "stable(8)")
    assert merge.divergences.count == 2 * SAMPLES_MAX
    assert len(merge.divergences.samples) == SAMPLES_MAX


# -- snapshots --------------------------------------------------------------------------------

POLICIES = [
    Policy(),
    Policy(stable=lag(5)),
    Policy(insert=quorum(2), adjust="at_once"),
    Policy(insert="half_frozen"),
    Policy(insert="highest_insert", adjust="leading"),
]


@pytest.mark.parametrize("case", ["auto", "r0", "r1", "r2", "r3", "r4"])
def test_a_restored_merger_goes_on_exactly_as_the_first(case: Any) -> None:
    for seed in range(25):
        rng = random.Random(seed)
        policy = rng.choice(POLICIES) if case in ("r3", "r4") else Policy()
        tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, duplicates=case == "r4")
        if case == "r0":
            tdb = Tdb(DEFAULT_SCHEMA, {e.vs: e for e in tdb.events}.values())
        order = "by_start" if case in ("r0", "r1") else "ties_shuffled"
        ordered = case in ("r0", "r1", "r2") or (case == "auto" and seed % 2)
        telling = Telling(order=order) if ordered else random_telling(rng)  # type: ignore[arg-type]  # one of them
        tellings = [tell(tdb, telling, i) for i in range(3)]
        first = LMerge(DEFAULT_SCHEMA, case, policy)
        declared = TIES if ordered else None
        numbers = [first.attach(properties=declared) for _ in tellings]
        first.detach(first.attach(properties=declared))
        at = rng.randrange(sum(map(len, tellings)))
        second = first
        for step in range(sum(map(len, tellings))):
            if step == at:
                snapshot = first.snapshot()
                assert documents.unpack(documents.pack(snapshot.document)) == snapshot.document
                second = LMerge.restore(DEFAULT_SCHEMA, snapshot)
                second.validate()
                assert second.stats.inputs == first.stats.inputs
            i = rng.choice([i for i, frames in enumerate(tellings) if frames])
            pushed = tellings[i].pop(0)
            out = first.push(numbers[i], pushed)
            if second is not first:
                again = second.push(numbers[i], pushed)
                second.validate()
                assert sorted(map(str, again.elements())) == sorted(map(str, out.elements()))
        assert second.stable == first.stable
        assert second.case == first.case
        assert second.attach() == first.attach(), "numbers go on, too"


# -- joining ahead ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["r0", "r1", "r2"])
def test_an_input_that_joins_ahead_waits_and_takes_nobody_past_anything(case: Any) -> None:
    merge = LMerge(DEFAULT_SCHEMA, case)
    a = merge.attach()
    say(merge, a, "ins(A,1,5)")
    ahead = merge.attach(join_at=20)
    assert say(merge, ahead, "ins(D,15,30) ins(E,25,30)") == ""
    assert say(merge, a, "ins(B,2,5) ins(C,9,15)") == "ins(B,2,5) ins(C,9,15)"
    restored = LMerge.restore(DEFAULT_SCHEMA, merge.snapshot())
    for m in (merge, restored):
        assert say(m, a, "ins(D,15,30) stable(22)") == "ins(D,15,30) ins(E,25,30) stable(22)"
        m.validate()
        assert m.stats.inputs[ahead].dropped == 1


def test_how_much_is_held_back_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_order, "HELD_ROWS_MAX", 3)
    merge = LMerge(DEFAULT_SCHEMA, "r2")
    empty = merge.nbytes
    ahead = merge.attach(join_at=20)
    say(merge, ahead, "ins(D,15,30) ins(E,25,30)")
    say(merge, ahead, "ins(F,25,30) ins(G,25,30)")
    assert "at most 3 rows" in str(merge.detached[ahead])
    assert merge.nbytes == empty


class Listed(list[Frame]):
    """Frames that count how often one of them is looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Frame]:
        Listed.looks += len(self)
        return super().__iter__()


def test_whether_more_may_be_held_back_is_known_without_counting_what_is() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r2")
    ahead = merge.attach(join_at=20)
    merge.push(ahead, frame("ins(A,20,30)"))
    case = merge._in_use.case
    assert isinstance(case, InOrder)
    case._held[ahead] = Listed(case._held[ahead])
    Listed.looks = 0
    for i in range(50):
        assert merge.may_hold(ahead, 1)
        merge.push(ahead, frame(f"ins(K{i},20,30)"))
    assert Listed.looks == 0
    assert case.held_rows(ahead) == sum(map(len, merge._in_use.case.held(ahead))) == 51
    merge.validate()


# -- other duties -----------------------------------------------------------------------------


def test_feedback_is_the_outputs_stable_and_needs_an_attached_input() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    a, b = merge.attach(), merge.attach()
    assert merge.feedback(b) == BEGIN
    say(merge, a, "stable(9)")
    assert merge.feedback(b) == 9
    merge.detach(b)
    with pytest.raises(Misuse):
        merge.feedback(b)


def test_a_lagging_output_promises_less_and_ends_with_its_input() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3", Policy(stable=lag(5)))
    a = merge.attach()
    assert say(merge, a, "ins(A,1,4) stable(3)") == "ins(A,1,4) stable(-2)"
    assert say(merge, a, "stable(8)") == "stable(3)"
    assert say(merge, a, "stable(inf)") == "stable(inf)"


def test_what_is_not_promised_yet_may_still_be_revised() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3", Policy(stable=lag(10)))
    a, b = merge.attach(), merge.attach()
    outs = [
        merge.push(number, frame(text))
        for number, text in [(a, "ins(A,1,9)"), (b, "ins(A,1,6) stable(12)"), (b, "stable(20)")]
    ]
    adjusts = [e for out in outs for e in out.elements() if isinstance(e, Adjust)]
    assert adjusts == [Adjust(("A",), 1, 9, 6)]
    assert merge.stable == 10


def test_memory_comes_back_after_a_peak() -> None:
    for case in ("r3", "r4"):
        merge = LMerge(DEFAULT_SCHEMA, case)
        a, b = merge.attach(), merge.attach()
        low = merge.nbytes
        rows = " ".join(f"ins(k{i},{i},{i + 5})" for i in range(3000))
        say(merge, a, rows)
        say(merge, b, rows)
        high = merge.nbytes
        say(merge, a, "stable(inf)")
        assert merge.nbytes < low + (high - low) / 4, case


def test_an_ended_stream_takes_nothing_more() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r4")
    a, b = merge.attach(), merge.attach()
    say(merge, a, "ins(A,1,inf) stable(inf)")
    assert say(merge, b, "ins(A,1,inf) ins(B,7,8) stable(inf)") == ""
    assert merge.stable == INF


def tampered(merge: LMerge, key: str, value: object) -> Snapshot:
    snapshot = merge.snapshot()
    return Snapshot({**snapshot.document, key: value}, snapshot.tables)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("stable", None),
        ("stable", "x"),
        ("stable", -1),
        ("stable", 2**80),
        ("case", "r9"),
        ("output", "x"),
        ("members", {}),
        ("policy", {"insert": "sometimes", "adjust": "at_once", "stable": "maximum"}),
        ("facts", {"last": [[99, 1]], "newest": 3, "emitted": 0, "counts": []}),
    ],
)
def test_a_snapshot_that_is_none_is_refused_whatever_is_wrong(key: str, value: object) -> None:
    for case in ("r1", "r3", "r4"):
        merge = LMerge(DEFAULT_SCHEMA, case)
        say(merge, merge.attach(), "ins(A,6,20) stable(7)")
        with pytest.raises(DecodeError, match="snapshot of a merger"):
            LMerge.restore(DEFAULT_SCHEMA, tampered(merge, key, value))


def test_a_snapshot_without_a_table_or_of_another_schema_is_refused() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    merge.attach()
    snapshot = merge.snapshot()
    with pytest.raises(DecodeError):
        LMerge.restore(DEFAULT_SCHEMA, Snapshot(snapshot.document, {}))
    with pytest.raises(DecodeError):
        LMerge.restore(StreamSchema({"q": "int8"}), snapshot)


@pytest.mark.parametrize("case", ["r0", "r1", "r2", "r3", "r4", "auto"])
def test_resume_takes_one_table_of_its_own_schema(case: Any) -> None:
    with pytest.raises(SchemaError):
        LMerge(DEFAULT_SCHEMA, case).resume(Frame.empty(StreamSchema({"q": "int8"})))
    merge = LMerge(DEFAULT_SCHEMA, case)
    merge.resume(frame("ins(A,1,9)"))
    with pytest.raises(Misuse, match="once"):
        merge.resume(frame("ins(B,1,9)"))
    late = LMerge(DEFAULT_SCHEMA, case)
    late.detach(late.attach())
    with pytest.raises(Misuse, match="before any input"):
        late.resume(frame("ins(B,1,9)"))


def test_what_is_no_frame_is_the_callers_misuse_and_changes_nothing() -> None:
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    a = merge.attach()
    for foreign in (frame("ins(A,1,9)").batch, None, "ins(A,1,9)"):
        with pytest.raises(Misuse, match="push takes a Frame"):
            merge.push(a, foreign)  # type: ignore[arg-type]  # wrong on purpose
    assert merge.inputs == [a]


def test_only_the_latest_reasons_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "REASONS_MAX", 3)
    merge = LMerge(DEFAULT_SCHEMA, "r3")
    for _ in range(5):
        merge.detach(merge.attach())
    assert list(merge.detached) == [2, 3, 4]
    with pytest.raises(DetachedInput):
        merge.push(0, frame("stable(1)"))


def test_wrong_arguments_are_misuse_that_says_what_was_wanted() -> None:
    wrong: Any
    for make in (
        lambda: LMerge({"k": "string"}),  # type: ignore[arg-type]  # wrong on purpose
        lambda: LMerge(DEFAULT_SCHEMA, policy="half_frozen"),  # type: ignore[arg-type]  # too
        lambda: LMerge(DEFAULT_SCHEMA, properties=StreamProperties()),  # type: ignore[arg-type]  # too
        lambda: LMerge(DEFAULT_SCHEMA).attach(join_at=1.5),  # type: ignore[arg-type]  # too
        lambda: LMerge(DEFAULT_SCHEMA).attach(join_at="now"),  # type: ignore[arg-type]  # too
    ):
        with pytest.raises(Misuse):
            make()
    for wrong in (3, None):
        with pytest.raises(DecodeError):
            LMerge.restore(DEFAULT_SCHEMA, wrong)
