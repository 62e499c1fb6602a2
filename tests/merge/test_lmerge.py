"""What a caller sees of LMerge beside its output: steps, statistics, divergences, snapshots."""

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
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse
from gapless.protocol.variants import Telling, random_tdb, random_telling, tell

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


def frame(text: str) -> Frame:
    return Frame.from_elements(DEFAULT_SCHEMA, parse(text))


def say(merge: LMerge, number: int, text: str) -> str:
    return format(merge.push(number, frame(text)).elements())


def merged(merge: LMerge, said: list[tuple[int, str]]) -> Tdb:
    table = Tdb(DEFAULT_SCHEMA)
    for number, text in said:
        table.fold(merge.push(number, frame(text)))
        merge.validate()
    return table


# -- adapting ---------------------------------------------------------------------------------

STRICT = StreamProperties(strictly_ordered=True, insert_only=True)
TIES = StreamProperties(ordered=True, insert_only=True)


def test_an_input_that_declares_nothing_has_a_key_until_it_is_seen_not_to() -> None:
    merge = LMerge(DEFAULT_SCHEMA)
    a = merge.attach()
    cases = [merge.case]
    assert say(merge, a, "ins(A,1,50)") == "ins(A,1,50)"
    cases.append(merge.case)
    assert say(merge, a, "ins(A,1,60)") == "ins(A,1,60)"
    cases.append(merge.case)
    assert cases == ["r3", "r3", "r4"]
    (step,) = merge.steps
    assert (step.before, step.after) == ("r3", "r4")
    assert "ins(A,1,60)" in step.why


def test_the_case_is_what_the_attached_inputs_need() -> None:
    merge = LMerge(DEFAULT_SCHEMA)
    cases = [merge.case]
    for declared in (STRICT, TIES, STRICT, None, StreamProperties(), STRICT):
        merge.attach(properties=declared)
        cases.append(merge.case)
    assert cases == ["r0", "r0", "r2", "r2", "r4", "r4", "r4"], "ties have no key: not r3"
    assert [(s.before, s.after) for s in merge.steps] == [("r0", "r2"), ("r2", "r4")]


def test_what_the_first_input_needs_is_no_step() -> None:
    merge = LMerge(DEFAULT_SCHEMA)
    merge.attach()
    assert (merge.case, merge.steps) == ("r3", [])


def test_a_step_keeps_what_was_put_out_and_who_had_said_it() -> None:
    merge = LMerge(DEFAULT_SCHEMA)
    declared = StreamProperties(ordered=True, insert_only=True, key=True)
    a, b = merge.attach(properties=declared), merge.attach(properties=declared)
    out = Tdb(DEFAULT_SCHEMA)
    for number, text in [(a, "ins(A,1,50) ins(B,2,50) stable(2)"), (b, "ins(A,1,50)")]:
        out.fold(merge.push(number, frame(text)))
    c = merge.attach()
    assert merge.case == "r3"
    for number, text in [
        (c, "ins(C,9,50) ins(A,1,70)"),
        (c, "adj(C,9,50,60) ins(B,2,50) adj(A,1,70,50)"),
        (b, "ins(B,2,50) ins(C,9,60) stable(20)"),
        (a, "ins(C,9,60) stable(30)"),
        (c, "stable(inf)"),
    ]:
        out.fold(merge.push(number, frame(text)))
        merge.validate()
    assert out == table("ins(A,1,50) ins(B,2,50) ins(C,9,60)")
    assert merge.divergences.count == 0
    assert not merge.detached


def table(text: str) -> Tdb:
    tdb = Tdb(DEFAULT_SCHEMA)
    tdb.fold(frame(text))
    return tdb


def test_what_the_order_had_passed_over_is_rescued_by_a_step() -> None:
    merge = LMerge(DEFAULT_SCHEMA)
    a, b = merge.attach(properties=STRICT), merge.attach(properties=STRICT)
    say(merge, a, "ins(A,1,50) ins(C,9,50)")  # B is missing here
    assert say(merge, b, "ins(A,1,50) ins(B,5,50)") == "", "r0 has gone past 5"
    c = merge.attach()
    restored = LMerge.restore(DEFAULT_SCHEMA, merge.snapshot())
    for m in (merge, restored):
        assert say(m, c, "stable(0)") == "ins(B,5,50) stable(0)"


def test_what_cannot_be_seen_in_time() -> None:
    """Why inputs that declare nothing are not tried with r0 or r2 first: until its first adjust a
    revising stream looks as if it never revised, and by then its end may be frozen."""
    trusting = LMerge(DEFAULT_SCHEMA, "r2")
    a, b = trusting.attach(), trusting.attach()
    out = Tdb(DEFAULT_SCHEMA)
    for number, text in [(b, "ins(A,1,14)"), (a, "ins(A,1,3) ins(B,2,9) stable(20)")]:
        out.fold(trusting.push(number, frame(text)))
    assert Event(("A",), 1, 14) in out.frozen(), "b was about to say adj(A,1,14,3)"


def test_any_telling_is_merged_without_a_word_about_it() -> None:
    for seed in range(80):
        rng = random.Random(seed)
        tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, duplicates=bool(seed % 2))
        tellings: list[tuple[list[Frame], StreamProperties | None]] = []
        for i in range(rng.randint(1, 4)):
            if rng.random() < 0.5:
                plain = Telling(order="ties_shuffled")
                tellings.append((tell(tdb, plain, i), rng.choice((TIES, None))))
            else:
                tellings.append((tell(tdb, random_telling(rng), i), None))
        merge, out = LMerge(DEFAULT_SCHEMA), Tdb(DEFAULT_SCHEMA)
        live = [(merge.attach(properties=p), frames) for frames, p in tellings[:1]]
        waiting = tellings[1:]
        cases = [merge.case]
        while some := [pair for pair in live if pair[1]]:
            if waiting and merge.stable == BEGIN:
                frames, declared = waiting.pop()
                live.append((merge.attach(properties=declared), frames))
            number, frames = rng.choice(some)
            out.fold(merge.push(number, frames.pop(0)))
            merge.validate()
            cases.append(merge.case)
        assert not merge.detached
        assert out == tdb, f"seed {seed}\n{out.difference(tdb)}"
        assert cases == sorted(cases), "never to a stricter case"


def test_who_breaks_what_it_declared_is_detached_and_the_case_stays() -> None:
    merge = LMerge(DEFAULT_SCHEMA)
    a = merge.attach(properties=TIES)
    say(merge, a, "ins(A,5,9) ins(B,4,9)")
    assert a in merge.detached
    assert merge.case == "r2"
    known = LMerge(DEFAULT_SCHEMA, properties=[StreamProperties(key=True)])
    a = known.attach()
    say(known, a, "ins(A,5,9) ins(A,5,10)")
    assert a in known.detached
    assert known.case == "r3"


def test_bad_content_is_bad_in_every_case() -> None:
    merge = LMerge(DEFAULT_SCHEMA)
    a = merge.attach()
    say(merge, a, "ins(A,1,50)")
    say(merge, a, "adj(A,1,51,60)")
    assert a in merge.detached
    assert merge.case == "r3", "a step that does not help is not taken"


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


def test_what_was_held_back_is_not_lost_in_a_step() -> None:
    merge = LMerge(DEFAULT_SCHEMA)
    a = merge.attach(properties=TIES)
    ahead = merge.attach(join_at=20, properties=TIES)
    say(merge, ahead, "ins(D,15,30) ins(E,25,30)")
    free = merge.attach()
    out = table("")
    for number, text in [(free, "stable(0)"), (a, "ins(A,1,5)"), (a, "ins(D,15,30) stable(22)")]:
        out.fold(merge.push(number, frame(text)))
        merge.validate()
    assert merge.case == "r4"
    assert out == table("ins(A,1,5) ins(D,15,30) ins(E,25,30)")


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
    case = merge._case
    assert isinstance(case, InOrder)
    case._held[ahead] = Listed(case._held[ahead])
    Listed.looks = 0
    for i in range(50):
        assert merge.may_hold(ahead, 1)
        merge.push(ahead, frame(f"ins(K{i},20,30)"))
    assert Listed.looks == 0
    assert case.held_rows(ahead) == sum(map(len, merge._case.held(ahead))) == 51
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
