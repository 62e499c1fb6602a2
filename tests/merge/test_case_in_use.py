"""The case in use follows what inputs declare and are seen to be; a step loses nothing."""

from __future__ import annotations

import random

from gapless.merge.choose import StreamProperties
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import Telling, random_tdb, random_telling, tell
from tests.merge.helpers import PAYLOADS, STRICT, TIES, frame, say, table


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
