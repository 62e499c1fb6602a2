import random
from collections.abc import Sequence

import pytest

from gapless.merge.compatible import check_compatible
from gapless.merge.lmerge import LMerge
from gapless.merge.membership import DetachedInput, Input
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import GaplessError, Misuse, SchemaError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse
from gapless.protocol.variants import random_tdb, random_telling, tell

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


def r3() -> LMerge:
    return LMerge(DEFAULT_SCHEMA, "r3")


def say(merge: LMerge, number: int, text: str) -> str:
    return format(merge.push(number, Frame.from_elements(DEFAULT_SCHEMA, parse(text))).elements())


class Run:
    """One merge of many tellings: pushes in a drawn order, checks every prefix."""

    def __init__(
        self, merge: LMerge, tellings: Sequence[list[Frame]], join_at: Sequence[int]
    ) -> None:
        self.merge = merge
        self.output = Tdb(DEFAULT_SCHEMA)
        self.left = [list(frames) for frames in tellings]
        self.numbers = [merge.attach(t) for t in join_at]
        self.said = [Tdb(DEFAULT_SCHEMA) for _ in tellings]

    def step(self, i: int) -> None:
        frame = self.left[i].pop(0)
        self.said[i].fold(frame)
        self.output.fold(self.merge.push(self.numbers[i], frame))
        self.merge.validate()
        assert self.numbers[i] in self.merge.inputs
        check_compatible(self.said, self.output)

    def leave(self, i: int) -> None:
        self.left[i].clear()
        self.merge.detach(self.numbers[i])

    def finish(self, rng: random.Random) -> None:
        while some := [i for i, frames in enumerate(self.left) if frames]:
            self.step(rng.choice(some))


def test_the_output_follows_the_first_insert_and_is_put_right_at_stables() -> None:
    """Table III of the paper, output Out3."""
    merge = r3()
    in1, in2 = merge.attach(), merge.attach()
    assert say(merge, in1, "ins(A,6,10)") == "ins(A,6,10)"
    assert say(merge, in2, "ins(A,6,12) ins(B,7,14)") == "ins(B,7,14)"
    assert say(merge, in1, "adj(A,6,10,15)") == ""
    assert say(merge, in2, "adj(A,6,12,15) stable(16)") == "adj(A,6,10,15) stable(16)"
    assert len(merge) == 0


def test_a_stable_first_puts_right_what_it_would_freeze_wrong() -> None:
    """The challenge of section II: stable(11) of Phy1 behind events of Phy2 (Table II)."""
    merge = r3()
    phy1, phy2 = merge.attach(), merge.attach()
    assert say(merge, phy2, "ins(A,6,7) ins(B,8,15)") == "ins(A,6,7) ins(B,8,15)"
    out = say(merge, phy1, "ins(B,8,inf) ins(A,6,12) adj(B,8,inf,10) stable(11)")
    assert out == "adj(A,6,7,12) adj(B,8,15,10) stable(11)"


def test_an_adjust_names_the_end_that_the_output_has_now() -> None:
    merge = r3()
    a, b = merge.attach(), merge.attach()
    say(merge, a, "ins(A,6,20) adj(A,6,20,30)")
    assert say(merge, b, "ins(A,6,9) adj(A,6,9,40) stable(25)") == "adj(A,6,20,40) stable(25)"
    assert say(merge, a, "adj(A,6,30,50) stable(45)") == "adj(A,6,40,50) stable(45)"


def test_an_event_that_the_acting_input_lacks_is_taken_back_while_it_can_be() -> None:
    merge = r3()
    a, b = merge.attach(), merge.attach()
    say(merge, a, "ins(A,6,20)")
    assert say(merge, b, "stable(10)") == "adj(A,6,20,6) stable(10)"
    assert merge.divergences.count == 0


def test_what_is_half_frozen_is_kept_against_an_input_that_lacks_it() -> None:
    merge = r3()
    a, b = merge.attach(), merge.attach()
    say(merge, a, "ins(A,6,20) stable(10)")
    assert say(merge, b, "stable(15)") == "stable(15)"
    assert merge.divergences.count == 1


def test_a_late_insert_of_a_settled_event_is_dropped() -> None:
    merge = r3()
    a, b = merge.attach(), merge.attach()
    say(merge, a, "ins(A,6,9) stable(12)")
    assert say(merge, b, "ins(A,6,9) adj(A,6,9,8) adj(A,6,8,9) ins(B,13,14)") == "ins(B,13,14)"
    merge.validate()


def test_stable_of_a_joining_input_freezes_nothing_before_its_time() -> None:
    merge = r3()
    a = merge.attach()
    say(merge, a, "ins(A,6,9) ins(B,7,30)")
    joining = merge.attach(join_at=20)
    assert say(merge, joining, "ins(B,7,30) stable(25)") == ""
    assert merge.stable == BEGIN
    assert say(merge, a, "stable(19)") == "stable(19)"
    assert say(merge, a, "stable(20)") == "stable(25)", "once it qualifies its own stable counts"


def test_when_nobody_may_act_the_output_waits_and_says_so() -> None:
    merge = r3()
    assert merge.waiting_for == "an input: none is attached"
    a = merge.attach()
    joining = merge.attach(join_at=20)
    assert not merge.waiting_for
    merge.detach(a)
    assert say(merge, joining, "stable(30)") == ""
    assert "joined at 20" in str(merge.waiting_for)


def test_a_number_is_never_used_again() -> None:
    merge = r3()
    a = merge.attach()
    merge.detach(a)
    assert merge.attach() != a
    with pytest.raises(DetachedInput):
        merge.push(a, Frame.empty(DEFAULT_SCHEMA, 5))
    assert merge.stable == BEGIN
    with pytest.raises(Misuse):
        merge.push(99, Frame.empty(DEFAULT_SCHEMA))


@pytest.mark.parametrize(
    ("before", "bad"),
    [
        ("stable(10)", "ins(B,11,12) ins(A,9,20)"),
        ("ins(A,6,20) stable(10)", "ins(B,11,12) adj(A,6,20,9)"),
        ("ins(A,6,20)", "ins(B,11,12) adj(A,6,21,22)"),
        ("ins(A,6,20)", "ins(B,11,12) ins(A,6,20)"),
        ("ins(A,6,20)", "ins(B,11,12) adj(A,6,20,30) adj(A,6,20,40)"),
        ("ins(A,6,20)", "ins(B,11,12) adj(C,6,20,30)"),
        ("stable(10)", "ins(B,11,12) stable(9)"),
    ],
)
def test_bad_content_detaches_its_input_and_counts_not_at_all(before: str, bad: str) -> None:
    merge = r3()
    good, rogue = merge.attach(), merge.attach()
    say(merge, rogue, before)
    live = len(merge)
    assert say(merge, rogue, bad) == ""
    merge.validate()
    assert len(merge) == live
    assert isinstance(merge.detached[rogue], StreamViolation)
    assert say(merge, good, "ins(Z,20,30) stable(25)").endswith("stable(25)")


def test_a_frame_of_another_schema_detaches_its_input() -> None:
    merge = r3()
    a = merge.attach()
    assert not merge.push(a, Frame.empty(StreamSchema({"q": "int8"}), 5))
    assert isinstance(merge.detached[a], SchemaError)


def test_any_telling_merges_to_the_table_and_every_prefix_is_compatible() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS)
        tellings = [tell(tdb, random_telling(rng), i) for i in range(3)]
        run = Run(r3(), tellings, [BEGIN] * 3)
        run.finish(rng)
        assert run.output == tdb, f"seed {seed}\n{run.output.difference(tdb)}"
        assert run.merge.stable == INF
        assert len(run.merge) == 0
        assert run.merge.divergences.count == 0


def crashing_run(merge: LMerge, seed: int) -> None:
    """Inputs crash at any prefix and others join ahead of the output; one stays to the end."""
    rng = random.Random(seed)
    tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS)
    joins = [BEGIN, BEGIN, *(rng.randrange(60) for _ in range(3))]
    tellings = [
        tell(tdb, random_telling(rng, join_at=None if t == BEGIN else t), i)
        for i, t in enumerate(joins)
    ]
    run = Run(merge, tellings, joins)
    for victim in rng.sample(range(1, 5), 3):
        for _ in range(rng.randrange(40)):
            if some := [i for i, frames in enumerate(run.left) if frames]:
                run.step(rng.choice(some))
        run.leave(victim)
    run.finish(rng)
    assert run.output == tdb, run.output.difference(tdb)
    assert merge.stable == INF


def test_crashes_and_late_joins_leave_no_trace_in_the_output() -> None:
    for seed in range(60):
        crashing_run(r3(), seed)


class NoJoinGate(LMerge):
    """Broken: acts on the stable of an input that does not know enough."""

    def _may_act(self, entry: Input) -> bool:  # noqa: ARG002  # it does not look
        return True


def test_a_merger_without_the_join_gate_is_caught() -> None:
    def caught(seed: int) -> bool:
        try:
            crashing_run(NoJoinGate(DEFAULT_SCHEMA, "r3"), seed)
        except (GaplessError, AssertionError):
            return True
        return False

    assert any(caught(seed) for seed in range(20))


def test_a_merger_resumes_where_its_output_was_left() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS)
        first = Run(r3(), [tell(tdb, random_telling(rng), 0)], [BEGIN])
        for _ in range(rng.randrange(len(first.left[0]))):
            first.step(0)
        merge = r3()
        merge.resume(first.output.to_frame())
        merge.validate()
        join_at = max(0, merge.stable)
        later = Run(merge, [tell(tdb, random_telling(rng, join_at=join_at), 1)], [join_at])
        later.output = first.output
        later.said.append(first.said[0])
        if merge.stable < join_at:
            continue  # nothing was stable yet: the joined input alone could not act
        later.finish(rng)
        assert later.output == tdb, f"seed {seed}\n{later.output.difference(tdb)}"


def test_resume_is_only_for_a_merger_that_has_put_out_nothing() -> None:
    merge = r3()
    say(merge, merge.attach(), "ins(A,6,20) stable(3)")
    with pytest.raises(Misuse):
        merge.resume(Frame.empty(DEFAULT_SCHEMA, 5))
