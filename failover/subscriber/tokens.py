"""Tokens as text: what a program keeps to go on where it was, in one word without blanks.

    {"0": Token("m0.1", 3, 812, 40)}   <-->   gt1-3gABo...

To its keeper the text means nothing; only its version can be told from it. A checksum stands
in front of what it says, so that a text that was cut or mistyped is an error and not another place.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping

from gapless.failover.job.desired import SHARDS_MAX
from gapless.failover.messages import Token
from gapless.protocol import documents
from gapless.protocol.documents import Document
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, TokenError

PREFIX = "gt1-"
"""How a text of this version begins."""
CHARS_MAX = 1 << 18
"""Of a text: `SHARDS_MAX` tokens with long names of mergers take half of it."""
ADVICE = 'hand it back as it was given, or start anew with "now", "earliest" or a time'

_CRC_BYTES = 4


def encode(tokens: Mapping[str, Token]) -> str:
    """The tokens of all shards as text."""
    document: Document = [[shard, *token] for shard, token in sorted(tokens.items())]
    body = documents.pack(document)
    data = zlib.crc32(body).to_bytes(_CRC_BYTES, "big") + body
    return PREFIX + base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode(text: str) -> dict[str, Token]:
    """The inverse; raises `TokenError` where the text is none that `encode` has made."""
    if type(text) is not str:
        raise TokenError(f"a token is a text, not {type(text).__name__}")
    if not text.startswith(PREFIX):
        raise TokenError(f"{text[:40]!r} is not a token of this version: {ADVICE}")
    if len(text) > CHARS_MAX:
        raise TokenError(f"a token of {len(text)} characters, {CHARS_MAX} are the most: {ADVICE}")
    return _tokens(_document(text[len(PREFIX) :]))


def _document(text: str) -> Document:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):  # ValueError: letters beyond ASCII
        raise TokenError(f"the token has characters that none has: {ADVICE}") from None
    crc, body = data[:_CRC_BYTES], data[_CRC_BYTES:]
    if zlib.crc32(body).to_bytes(_CRC_BYTES, "big") != crc:
        raise TokenError(f"the token was cut or changed: {ADVICE}")
    try:
        return documents.unpack(body)
    except DecodeError as e:
        raise TokenError(f"the token says nothing that is known ({e}): {ADVICE}") from None


def _tokens(document: Document) -> dict[str, Token]:
    tokens = {}
    for item in document if isinstance(document, list) else [None]:
        match item:
            case [str(shard), str(merger), int(epoch), int(offset), int(stable)]:
                tokens[shard] = Token(merger, epoch, offset, stable)
            case _:
                raise TokenError(f"the token says nothing that is known: {ADVICE}")
    check(tokens)
    return tokens


def check(tokens: Mapping[str, Token]) -> None:
    """Raises `TokenError` where tokens are at no place that an output can have."""
    if not 1 <= len(tokens) <= SHARDS_MAX:
        raise TokenError(f"tokens of {len(tokens)} shards; a job has 1 to {SHARDS_MAX}")
    for shard, token in tokens.items():
        if type(token) is not Token:
            raise TokenError(f"shard {shard}: a Token, not {type(token).__name__}")
        places = (token.epoch, token.offset)
        is_place = all(type(n) is int and 0 <= n <= INF for n in places)
        is_place &= type(token.stable) is int and BEGIN <= token.stable <= INF
        if not is_place:
            raise TokenError(f"shard {shard}: {token} is no place in an output: {ADVICE}")


def check_shards(tokens: Mapping[str, Token], shards: Mapping[str, object]) -> None:
    """Raises `TokenError` where tokens are of other shards than those of the job."""
    check(tokens)
    if set(tokens) != set(shards):
        raise TokenError(
            f"tokens of the shards {', '.join(sorted(tokens))}; the job has "
            f"{', '.join(sorted(shards))}: they are of another job"
        )
