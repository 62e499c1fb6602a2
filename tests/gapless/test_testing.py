import random

import pytest

import gapless.testing
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import DEFAULT_SCHEMA, parse
from gapless.testing import (
    Teller,
    TrialFailed,
    random_tdb,
    random_telling,
    rehearse,
    run_seed,
    tell,
)

SCHEMA = StreamSchema({"src": "string", "bytes": "int32"})


def stream(text: str) -> list[Frame]:
    return list(frames_of(DEFAULT_SCHEMA, parse(text)))


def test_every_name_is_there_and_says_what_it_is() -> None:
    for name in gapless.testing.__all__:
        assert getattr(gapless.testing, name).__doc__


def test_streams_of_one_table_merge() -> None:
    rng = random.Random(1)
    payloads: list[tuple[object, ...]] = [("a", 1), ("b", 2)]
    table = random_tdb(rng, SCHEMA, payloads)
    streams = [tell(table, random_telling(rng), seed) for seed in range(3)]
    for seed in range(10):
        trial = rehearse(streams, seed)
        assert trial.output == table
        assert trial.output.stable == INF


def test_recordings_that_were_cut_off_are_compared_as_far_as_they_are_stable() -> None:
    streams = [
        stream("ins(A,1,5) ins(B,2,9) stable(6) ins(C,7,8)"),
        stream("ins(B,2,7) stable(1) ins(A,1,5) adj(B,2,7,8)"),
    ]
    for seed in range(10):
        rehearse(streams, seed)


@pytest.mark.parametrize(
    "other",
    [
        "ins(A,1,5) ins(B,2,8) stable(inf)",  # another end
        "ins(A,1,5) stable(inf)",  # an event is missing
        "ins(A,1,5) ins(B,2,9) ins(C,3,4) stable(inf)",  # one too many
    ],
)
def test_streams_that_disagree_are_found_out(other: str) -> None:
    def disagree(seed: int) -> bool:
        try:
            one = "ins(A,1,5) ins(B,2,9) stable(inf)"
            rehearse([stream(one), stream(other)], seed)
        except TrialFailed:
            return True
        return False

    assert any(disagree(seed) for seed in range(10))


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        ("ins(A,1,5) stable(6) ins(B,2,9) stable(inf)", "no insert has vs < 6"),
        ("adj(A,1,5,6) stable(inf)", "is not"),
        ("ins(A,1,5) adj(A,1,5,1) adj(A,1,5,6) stable(inf)", "is not"),
    ],
)
def test_a_stream_that_breaks_its_own_promise_is_found_out(bad: str, rule: str) -> None:
    with pytest.raises(TrialFailed, match=rule):
        rehearse([stream(bad)], 0)


def test_a_failure_has_its_trace_and_shows_the_last_of_it() -> None:
    rows = " ".join(f"ins(A,{t},{t + 1}) stable({t})" for t in range(1, 30))
    with pytest.raises(TrialFailed) as caught:
        rehearse([stream(f"{rows} ins(B,2,9)")], 0)
    trace = caught.value.trace
    assert trace[0] == "attach 0 join begin"
    problem, _, last = str(caught.value).partition("\nthe last that happened:\n  ")
    assert problem.startswith(f"step {len(trace)}: ")
    assert last.split("\n  ") == list(trace[-10:])
    assert "0: ins(A,29,30) stable(29)" in trace
    assert "ins(B,2,9) breaks the rule" in problem


def test_a_long_line_of_a_trace_is_cut_in_the_message() -> None:
    failed = TrialFailed("it went wrong", ["a" * 1000])
    assert len(str(failed)) < 300
    assert failed.trace == ("a" * 1000,)
    assert str(TrialFailed("it went wrong")) == "it went wrong"


def test_a_seed_plays_the_same_trial_again() -> None:
    assert run_seed(3, LMerge).trace == run_seed(3, LMerge).trace
    assert run_seed(3, LMerge).trace != run_seed(4, LMerge).trace


def test_a_teller_needs_something_to_tell() -> None:
    with pytest.raises(Misuse):
        Teller([])
    with pytest.raises(Misuse):
        rehearse([], 0)
