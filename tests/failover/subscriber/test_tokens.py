"""Tokens as text: what was given comes back as it was, everything else is refused with a reason."""

import base64
import random
import string
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.failover.messages import Token
from gapless.failover.subscriber import tokens
from gapless.failover.subscriber.tokens import CHARS_MAX, PREFIX, decode, encode
from gapless.protocol import documents
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse, TokenError

TOKENS = {"0": Token("m0.1", 3, 812, 40), "1": Token("", 0, 0, BEGIN)}

TIMES = st.one_of(st.sampled_from([BEGIN, -1, 0, INF]), st.integers(BEGIN, INF))
ANY_TOKEN = st.builds(Token, st.text(max_size=8), st.integers(0, INF), st.integers(0, INF), TIMES)


@given(st.dictionaries(st.text(max_size=4), ANY_TOKEN, min_size=1, max_size=5))
def test_what_was_given_comes_back_as_it_was(given_tokens: dict[str, Token]) -> None:
    text = encode(given_tokens)
    assert decode(text) == given_tokens
    assert set(text) <= set(string.ascii_letters + string.digits + "-_")


def test_the_order_of_the_shards_makes_no_difference() -> None:
    assert encode(TOKENS) == encode(dict(reversed(TOKENS.items())))


def test_a_text_with_any_other_letter_is_refused() -> None:
    text = encode(TOKENS)
    rng = random.Random(1)
    for i in range(len(text)):
        letter = rng.choice([c for c in string.ascii_letters + string.digits if c != text[i]])
        changed = text[:i] + letter + text[i + 1 :]
        try:
            assert decode(changed) == TOKENS  # bits of padding say nothing
            assert i == len(text) - 1
        except TokenError:
            pass


def test_a_text_that_was_cut_is_refused() -> None:
    text = encode(TOKENS)
    for end in range(len(text)):
        with pytest.raises(TokenError):
            decode(text[:end])


def made(document: documents.Document) -> str:
    body = documents.pack(document)
    data = zlib.crc32(body).to_bytes(4, "big") + body
    return PREFIX + base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "gt2-AAAA",
        PREFIX,
        PREFIX + "ä",
        PREFIX + "A",
        PREFIX + "A" * CHARS_MAX,
        made(None),
        made([]),
        made({"0": 1}),
        made([["0", "m", 1, 2]]),
        made([["0", "m", 1, 2, "3"]]),
        made([["0", "m", 1, -2, 3]]),
        made([["0", "m", -1, 2, 3]]),
        made([["0", "m", 1, 2, 2**63]]),
    ],
)
def test_what_is_no_token_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(TokenError, match=r"start anew|shards") as caught:
        decode(text)
    assert isinstance(caught.value, Misuse)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(TokenError, match="not bytes"):
        decode(encode(TOKENS).encode())  # type: ignore[arg-type]  # wrong on purpose


def test_tokens_of_other_shards_are_refused() -> None:
    with pytest.raises(TokenError, match="of another job"):
        tokens.check_shards(TOKENS, {"0": (), "2": ()})
    tokens.check_shards(TOKENS, {"1": (), "0": ()})


def test_what_is_no_token_at_all_is_refused() -> None:
    with pytest.raises(TokenError, match="not tuple"):
        tokens.check({"0": ("m0.0", 1, 2, 3)})  # type: ignore[dict-item]  # wrong on purpose
