"""Scripts of merges: what they may say, what is wrong with them and where, and how they play."""

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.merge.lmerge import LMerge
from gapless.merge.membership import INPUTS_MAX
from gapless.merge.play import Heard, Player
from gapless.merge.policy import Policy
from gapless.merge.script import Attach, Detach, Say, Script, Step, parse_scripts
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import ParseError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import DEFAULT_SCHEMA, TEXT_CHARS_MAX, format, parse
from gapless.protocol.variants import random_tdb, random_telling, tell
from tests.protocol.strategies import frames

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


def script(content: str) -> Script:
    (only,) = parse_scripts(content)
    return only


def say(frames: tuple[Frame, ...]) -> str:
    return format(e for frame in frames for e in frame.elements())


def play(content: str, *, check: bool = True, policy: Policy | None = None) -> list[Heard]:
    player = Player(DEFAULT_SCHEMA, "r3", policy, check=check)
    return [player.step(step) for step in script(content).steps]


# -- reading --------------------------------------------------------------------------------------


def test_a_string_that_does_not_end_is_found_at_once_however_long_it_is() -> None:
    content = 'attach a\na: ins("' + '\\"' * 1_000_000  # looked at twice, it would take hours
    with pytest.raises(ParseError, match="line 2, column 8: a string or bytes that do not end"):
        parse_scripts(content)


def test_a_script_reads_as_its_lines() -> None:
    first, second = parse_scripts(
        "attach a\n"
        "  attach c join 120   # knows what ends at 120 or later\r\n"
        "\n"
        "# only a comment\n"
        "a: ins(A,6,20) stable(11) adj(A,6,20,30)\n"
        "detach a\n"
        "---\n"
        "attach a join inf"
    )
    a, c, said, gone = first.steps
    assert (a, c, gone) == (Attach(1, "a"), Attach(2, "c", 120), Detach(6, "a"))
    assert isinstance(said, Say)
    assert (said.line, said.name) == (5, "a")
    assert [say((f,)) for f in said.frames] == ["ins(A,6,20) stable(11)", "adj(A,6,20,30)"]
    assert second.steps == (Attach(8, "a", INF),)


def test_a_hash_inside_a_string_or_a_word_begins_no_comment() -> None:
    content = r"""attach a
a: ins("x # y",1,2) ins("\" # z",1,2) ins(b#,1,2) # ins(c,1,2)"""
    said = script(content).steps[1]
    assert isinstance(said, Say)
    payloads = [e.payload[0] for f in said.frames for e in parse(say((f,)))]  # type: ignore[union-attr]  # inserts
    assert payloads == ["x # y", '" # z', "b#"]


def test_a_name_is_free_again_once_its_input_has_left() -> None:
    assert len(script("attach a\ndetach a\nattach a join 3\na: stable(4)").steps) == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("fly a", "line 1, column 1: expected attach NAME, detach NAME, NAME: elements, or ---"),
        ("attach", "line 1, column 7: expected the name of an input, found the end of the line"),
        ("\nattach 7", "line 2, column 8: expected the name of an input, found '7'"),
        ("attach a b", "line 1, column 10: expected join TIME or the end of the line, found 'b'"),
        ("attach a join", "column 14: expected a time: an integer or inf, found the end"),
        ("attach a join 1e3", "column 15: expected a time: an integer or inf, found '1e3'"),
        (f"attach a join {INF + 1}", "column 15: expected a time: an integer or inf"),
        ("attach a join 1 2", "column 17: expected the end of the line, found '2'"),
        ("attach a\nattach a", "line 2, column 8: expected a name that no attached input has"),
        ("detach a", "line 1, column 8: expected an attached input (none is), found 'a'"),
        ("attach b\nattach c\n a: stable(1)", "line 3, column 2: expected an attached input (b,"),
        ("attach a\n---\na: stable(1)", "line 3, column 1: expected an attached input (none is)"),
        ("attach a\na: ins(A,1,2", "line 2, column 13: expected ')', found the end"),
        ("attach a\na: ins(A,1,2) go", "line 2, column 15: expected ins(...), adj(...) or stable"),
        ("attach a\na: ins(A,3,2)", "line 2, column 4: insert with vs 3 and ve 2"),
        ('attach a\na: ins("A,1,2)', "line 2, column 8: a string or bytes that do not end"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(content: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_scripts(content, source="lease.txt")
    assert str(caught.value).startswith("lease.txt: line ")
    assert message in str(caught.value)


def test_a_value_that_its_column_cannot_hold_is_said_with_its_line() -> None:
    schema = StreamSchema({"len": "int8"})
    with pytest.raises(ParseError, match="line 2, column 3: column 'len' of type int8"):
        parse_scripts("attach a\na: ins(300,1,2)", schema)


def test_more_inputs_or_text_than_there_may_be_are_refused() -> None:
    many = "\n".join(f"attach a{i}" for i in range(INPUTS_MAX + 1))
    with pytest.raises(ParseError, match=f"line {INPUTS_MAX + 1}, column 8: expected at most"):
        parse_scripts(many)
    with pytest.raises(ParseError, match="characters"):
        parse_scripts(" " * (TEXT_CHARS_MAX + 1))


@given(st.text() | st.text("attach join d e:#-\n\"\\'(),insadjstable0123456789x"))
def test_any_text_is_scripts_or_a_parse_error(content: str) -> None:
    with contextlib.suppress(ParseError):
        parse_scripts(content)


def written(step: Step) -> str:
    match step:
        case Attach(_, name, join_at):
            return f"attach {name}" + (f" join {format_time(join_at)}" if join_at > BEGIN else "")
        case Detach(_, name):
            return f"detach {name}"
        case Say(_, name, said):
            return f"{name}: {say(said)}"


@given(st.lists(frames(StreamSchema({"p": "string", "n": "float64"})), max_size=4), st.integers())
def test_what_is_written_down_reads_back(said: list[Frame], seed: int) -> None:
    rng = random.Random(seed)
    steps: list[Step] = [Attach(1, "a", rng.choice((BEGIN, 5, INF)))]
    steps += [Say(i, "a", (f,)) for i, f in enumerate(said, 2)]
    steps.append(Detach(len(said) + 2, "a"))
    schema = (
        StreamSchema({"p": "string", "n": "float64"}, said[0].schema.time_unit)
        if said
        else (StreamSchema({"p": "string", "n": "float64"}))
    )
    content = "\n".join(map(written, steps))
    (read,) = parse_scripts(content, schema)
    assert "\n".join(map(written, read.steps)) == content
    assert [step.line for step in read.steps] == list(range(1, len(steps) + 1))


# -- playing --------------------------------------------------------------------------------------


def test_a_script_gives_what_its_merger_gives() -> None:
    heard = play("attach a\nattach b\na: ins(A,6,7)\nb: ins(A,6,12) stable(11)\ndetach b")
    assert [say(h.out) for h in heard] == ["", "", "ins(A,6,7)", "adj(A,6,7,12) stable(11)", ""]
    assert not any(h.detached or h.skipped or h.breaches for h in heard)


def test_who_breaks_its_word_is_out_until_it_is_attached_anew() -> None:
    heard = play(
        "attach a\nattach b\nb: ins(A,1,9) stable(5)\n"
        "b: ins(B,7,8) stable(6) ins(C,2,9) stable(12)\n"  # C breaks stable(6); 12 never counts
        "b: stable(20)\ndetach b\nattach b\nb: ins(A,1,9) ins(B,7,8) stable(20)"
    )
    assert say(heard[3].out) == "ins(B,7,8) stable(6)"
    assert isinstance(heard[3].detached, StreamViolation)
    assert heard[3].detached.element == "ins(C,2,9)"
    assert heard[4].skipped
    assert say(heard[7].out) == "stable(20)"


def test_random_streams_of_one_table_pass_the_check_at_every_line() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        duplicates = seed % 2 == 1
        tdb = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 12, 30, duplicates=duplicates)
        joins = [BEGIN, BEGIN, 10]
        streams = [
            tell(tdb, random_telling(rng, None if t == BEGIN else t), i)
            for i, t in enumerate(joins)
        ]
        player = Player(DEFAULT_SCHEMA, "r4" if duplicates else "r3", check=True)
        for i, t in enumerate(joins):
            player.step(Attach(i, f"i{i}", t))
        while left := [i for i, frames in enumerate(streams) if frames]:
            i = rng.choice(left)
            heard = player.say(f"i{i}", (streams[i].pop(0),))
            assert not heard.detached
            assert not heard.breaches, f"seed {seed}: {heard.breaches[0]}"
        assert player.merge.stable == INF


def test_a_broken_merger_is_caught_at_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    push = LMerge.push

    def without_adjusts(self: LMerge, number: int, frame: Frame) -> Frame:
        out = push(self, number, frame)
        return out.take(out.is_insert, out.stable)

    monkeypatch.setattr(LMerge, "push", without_adjusts)
    content = "attach a\nattach b\na: ins(A,6,7)\nb: ins(A,6,12) stable(11)"
    assert [b.rule for b in play(content)[3].breaches] == ["C2", "C3.2"]
    assert play(content, check=False)[3].breaches == ()


def test_an_input_that_breaks_what_a_merger_cannot_see_is_caught_by_the_check() -> None:
    content = "attach a\nattach b\na: ins(A,1,2) stable(5)\nb: adj(A,1,2,3)"
    assert [b.rule for b in play(content)[3].breaches] == ["own promises"]
