"""Rules in a file: what may be said, and that a wrong one is named by its number."""

from __future__ import annotations

import pytest

from gapless.protocol.errors import Misuse
from gapless.spark_sources.rules import RULES_MAX, Rule, check, parse


def test_rules_are_read_in_their_order() -> None:
    text = """
    [[rule]]
    drop = "len <= 0"
    [[rule]]
    default = "src"
    value = 0
    [[rule]]
    reject = "len > 65535"
    reason = "too long"
    """
    assert parse(text) == (
        Rule(1, "drop", "len <= 0"),
        Rule(2, "default", "src", value=0),
        Rule(3, "reject", "len > 65535", "too long"),
    )
    assert parse("") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rule]", "no TOML"),
        ('rule = "drop"', "[[rule]]"),
        ('[[rules]]\ndrop = "a"', "'rules'"),
        ("[[rule]]", "rule 1 is to have one of drop, default, reject; it has nothing"),
        ('[[rule]]\ndrop = "a"\nreject = "b"\nreason = "c"', "it has drop, reason, reject"),
        ('[[rule]]\ndrop = "a"\n[[rule]]\nkeep = "b"', "rule 2 is to have one of"),
        ('[[rule]]\ndrop = "a"\nreason = "b"', "rule 1: drop goes with drop"),
        ('[[rule]]\nreject = "a"', "rule 1: reject goes with reason, reject"),
        ('[[rule]]\ndefault = "a"', "rule 1: default goes with default, value"),
        ("[[rule]]\ndrop = 7", "rule 1: drop = 7: write it as a text"),
        ('[[rule]]\ndrop = " "', "rule 1: drop = ' '"),
        ('[[rule]]\ndrop = "a"\n' * (RULES_MAX + 1), f"{RULES_MAX} at most"),
    ],
)
def test_what_is_no_rule_is_named(text: str, said: str) -> None:
    with pytest.raises(Misuse) as raised:
        parse(text)
    assert said in str(raised.value)


def test_a_default_is_of_a_column() -> None:
    rules = parse('[[rule]]\ndrop = "b"\n[[rule]]\ndefault = "len"\nvalue = 0')
    check(rules, ["ts", "len"])
    with pytest.raises(Misuse, match="rule 2: default of 'len', which is none of the columns ts"):
        check(rules, ["ts"])
