from itertools import product

import pytest

from gapless.merge.choose import StreamProperties, choose
from gapless.merge.lmerge import LMerge
from gapless.merge.policy import Policy, lag, quorum
from gapless.protocol.errors import Misuse
from gapless.protocol.text import DEFAULT_SCHEMA

TOP_K = StreamProperties(
    ordered=True, insert_only=True, deterministic_ties=True, ve_of_vs=True, lossless=True
)
GROUPED_IN_ORDER = StreamProperties(ordered=True, insert_only=True, key=True)
GROUPED = StreamProperties(key=True)
GENERALITY = ("r0", "r1", "r2", "r3", "r4")


@pytest.mark.parametrize(
    ("properties", "case"),
    [
        (StreamProperties(strictly_ordered=True, insert_only=True), "r0"),
        (TOP_K, "r1"),
        (GROUPED_IN_ORDER, "r2"),
        (GROUPED, "r3"),
        (StreamProperties(ordered=True, key=True), "r3"),
        (StreamProperties(insert_only=True), "r4"),
        (StreamProperties(), "r4"),
    ],
)
def test_the_examples_of_section_iv_d(properties: StreamProperties, case: str) -> None:
    assert choose([properties, properties])[0] == case
    assert LMerge(DEFAULT_SCHEMA, properties=[properties]).case == case


def test_the_weakest_input_decides() -> None:
    assert choose([TOP_K, GROUPED_IN_ORDER])[0] == "r2"
    assert choose([TOP_K, GROUPED])[0] == "r4", "top-k may have two events of one key"


def test_counting_is_not_trusted_where_feedback_may_skip_part_of_a_start() -> None:
    free_ends = StreamProperties(
        ordered=True, insert_only=True, deterministic_ties=True, lossless=True
    )
    assert choose([free_ends])[0] == "r2"
    assert choose([free_ends], feedback=False)[0] == "r1"
    lossy = StreamProperties(ordered=True, insert_only=True, deterministic_ties=True, ve_of_vs=True)
    assert choose([lossy])[0] == "r2"


def test_knowing_more_never_leads_to_a_more_general_case() -> None:
    names = StreamProperties.__slots__
    for flags in product((False, True), repeat=len(names)):
        known = dict(zip(names, flags, strict=True))
        case = GENERALITY.index(choose([StreamProperties(**known)])[0])
        for name in names:
            more = StreamProperties(**{**known, name: True})
            assert GENERALITY.index(choose([more])[0]) <= case


def test_nothing_to_choose_from_is_misuse() -> None:
    with pytest.raises(Misuse):
        choose([])


@pytest.mark.parametrize(
    "bad",
    [
        {"insert": "sometimes"},
        {"adjust": "never"},
        {"stable": "minimum"},
        {"insert": "fully_frozen", "adjust": "at_once"},
        {"insert": "fully_frozen", "adjust": "leading"},
    ],
)
def test_a_policy_that_means_nothing_is_refused_when_it_is_made(bad: dict[str, str]) -> None:
    with pytest.raises(Misuse):
        Policy(**bad)  # type: ignore[arg-type]  # wrong on purpose


def test_empty_quorums_and_negative_lags_are_refused() -> None:
    for make in (lambda: quorum(0), lambda: lag(-1)):
        with pytest.raises(Misuse):
            make()


@pytest.mark.parametrize("case", ["r0", "r1", "r2"])
def test_a_case_that_keeps_no_events_refuses_to_wait_for_them(case: str) -> None:
    with pytest.raises(Misuse, match="use r3 or r4"):
        LMerge(DEFAULT_SCHEMA, case, Policy(insert="half_frozen"))  # type: ignore[arg-type]  # any of them


def test_a_policy_that_waits_leads_to_a_case_that_can() -> None:
    waits = Policy(insert="half_frozen")
    assert LMerge(DEFAULT_SCHEMA, policy=waits, properties=[GROUPED_IN_ORDER]).case == "r3"
    assert LMerge(DEFAULT_SCHEMA, policy=waits, properties=[TOP_K]).case == "r4"
    assert LMerge(DEFAULT_SCHEMA, policy=waits).case == "r3"


def test_an_unknown_case_is_refused() -> None:
    with pytest.raises(Misuse, match="r9"):
        LMerge(DEFAULT_SCHEMA, "r9")  # type: ignore[arg-type]  # wrong on purpose
