"""The section `weight`: every case runs, and what grows as it should not misses its bar."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.bench import engine
from gapless.bench.engine_weight import (
    BYTES_ALLOWED,
    BYTES_LEAST,
    Outcome,
    judged,
    launched,
    weight,
)
from gapless.bench.harness import Context, Row
from gapless.bench.weight_bad_rows import BAD
from gapless.bench.weight_case import Case, as_size, rows
from gapless.bench.weight_cases import CASES, INSTANTS, JOINS
from gapless.bench.weight_feeds import burst, every, in_turn, one_after_the_other, spread
from gapless.bench.weight_run import Measured, Run, measure
from gapless.engine.query import Query
from gapless.protocol.errors import Misuse

SHORT_WINDOWS = ("burst", "no key twice", "a lull after each row", "early, the next windows")

FULL = Context(quick=False, plot_dir=None)


# -- the cases ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SHORT_WINDOWS, *INSTANTS, *JOINS, *BAD])
def test_every_case_runs_to_its_end_and_has_work_and_something_to_hold(name: str) -> None:
    case = CASES[name]
    size = case.quick[0]
    found = Run(case, size).whole()
    assert found.rows > 0
    assert case.work(size, found.rows, found.answers) > 0
    assert case.holds(size) > 0
    assert list(case.sizes) == sorted(set(case.sizes))
    assert len(case.sizes) > 2
    assert (found.aside > 0) == (name in BAD)


def test_a_caller_that_has_answers_enough_stops() -> None:
    case = replace(CASES["no key twice"], frame_rows=100)
    whole, some = (Run(replace(case, answers_max=n), 1_000).whole() for n in (1 << 62, 10))
    assert 10 <= some.answers < whole.answers
    assert some.rows < whole.rows


def test_feeds_give_all_rows_and_then_their_ends() -> None:
    def given(*names: str) -> list[tuple[str, int]]:
        weave = in_turn if len(names) > 1 else one_after_the_other
        feed = weave(*(spread(20_000, 3, 10, name) for name in names or "ab"))
        return [(name, -1 if batch is None else batch.num_rows) for name, batch in feed]

    a, b = (16_384, 3_616)
    turns = [("a", a), ("b", a), ("a", b), ("b", b), ("a", -1), ("b", -1)]
    assert given("a", "b") == turns
    assert given() == [("a", a), ("a", b), ("b", a), ("b", b), ("a", -1), ("b", -1)]
    assert every(0.3, 1_000).sum() == 300


# -- what they are held against -------------------------------------------------------------------

PLAIN = Case("size", lambda size: rows(), lambda size: burst(size, 1), (1, 2, 4), (1,))
MB = 1 << 20


def ran(
    size: int, seconds: float, *, mb: int = 0, state_mb: int = 0, push_s: float = 0
) -> Measured:
    return Measured(size, 1_000 * size, 0, 0, seconds, push_s, mb * MB, state_mb * MB)


def missed(case: Case, *outcomes: Outcome) -> list[str]:
    found = judged("it", case, outcomes, lambda text: None)
    return [row.name.removeprefix("it: ") for row in found if row.holds is False]


def test_time_that_grows_as_the_work_does_holds_and_faster_growth_does_not() -> None:
    assert missed(PLAIN, ran(1, 1.0), ran(2, 2.0), ran(4, 4.0)) == []
    assert missed(PLAIN, ran(1, 1.0), ran(2, 3.9), ran(4, 7.9)) == []
    assert missed(PLAIN, ran(1, 1.0), ran(2, 4.0), ran(4, 16.0)) == ["time over linear"]
    assert missed(PLAIN, ran(1, 1.0), ran(2, 5.0), ran(4, 4.0)) == ["time over linear"]


def test_times_too_short_to_say_anything_count_as_short() -> None:
    assert missed(PLAIN, ran(1, 0.0001), ran(2, 0.01), ran(4, 0.02)) == []


def test_memory_grows_as_what_has_to_be_held_does() -> None:
    grown = [ran(n, n, mb=100 * n, state_mb=100 * n) for n in (1, 2, 4)]
    assert missed(PLAIN, *grown) == ["memory over linear"]
    assert missed(replace(PLAIN, holds=as_size), *grown) == []
    little = [ran(n, n, mb=n * BYTES_LEAST // MB // 4, state_mb=1) for n in (1, 2, 4)]
    assert missed(PLAIN, *little) == []


def test_memory_that_the_state_says_nothing_of_misses() -> None:
    assert missed(PLAIN, ran(1, 1.0, mb=100, state_mb=40)) == []
    over = 2 * (40 + BYTES_ALLOWED // MB) + 1
    assert missed(PLAIN, ran(1, 1.0, mb=over, state_mb=40)) == ["memory over the state"]


def test_a_push_that_keeps_its_caller_misses() -> None:
    assert missed(PLAIN, ran(1, 1.0, push_s=0.1), ran(2, 2.0, push_s=0.11)) == ["longest push"]


def test_a_size_that_fails_misses_and_larger_ones_are_not_tried() -> None:
    tried: list[tuple[str, int]] = []
    said: list[str] = []

    def launch(name: str, size: int) -> Outcome:
        tried.append((name, size))
        return "memory: no more" if size == 2 else ran(size, size)

    context = replace(FULL, say=said.append)
    found = list(weight(context, {"it": PLAIN}, launch))
    assert tried == [("it", 1), ("it", 2)]
    assert [row.name for row in found if row.holds is False] == ["weight: it: sizes that failed"]
    assert said == ["weight: it, at the size after 1 (size): memory: no more"]


def test_a_case_that_takes_all_memory_is_one_that_failed() -> None:
    def too_much(size: int) -> Query:
        raise MemoryError(f"of {size}")

    case = replace(PLAIN, query=too_much)
    assert measure(case, 2) == {"failed": "memory: MemoryError('of 1')"}


def test_a_run_in_a_process_of_its_own_is_measured_or_ended_by_its_cap() -> None:
    found = launched("burst", 20_000)
    assert isinstance(found, Measured), found
    assert (found.rows, found.answers) == (20_000, 36_000)
    assert isinstance(launched("burst", 20_000, data_bytes_max=1 << 20), str)


# -- sections -------------------------------------------------------------------------------------


def test_sections_run_by_their_names_and_others_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = Row("measured", 1, "x")
    monkeypatch.setattr(engine, "SECTIONS", {"weight": lambda context: iter((row,)), "peers": None})
    assert list(engine.run(replace(FULL, only=("weight",)))) == [row]
    assert list(engine.run(FULL)) == [row]
    with pytest.raises(Misuse, match="--only some: the sections are weight, peers"):
        list(engine.run(replace(FULL, only=("some",))))


def test_the_sections_that_the_module_describes_are_those_there_are() -> None:
    lines = str(engine.__doc__).splitlines()
    for name, section in engine.SECTIONS.items():
        assert section is not None
        assert any(line.split()[:1] == [name] for line in lines)
