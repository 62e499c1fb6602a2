"""The formats of lines by name, and the encodings of their text."""

from __future__ import annotations

import pyarrow as pa

from gapless.protocol.errors import Misuse
from gapless.protocol.lines.blocks import Block
from gapless.protocol.lines.csv_lines import Csv
from gapless.protocol.lines.json_lines import JsonLines
from gapless.protocol.lines.line_format import UTF8, LineFormat


def format_of(
    kind: str, schema: pa.Schema, header: Block | None, encoding: str = UTF8
) -> LineFormat:
    """What reads lines of a kind; those of CSV have a header."""
    if kind == "jsonl":
        return JsonLines(schema, encoding)
    if header is None:
        raise Misuse("CSV begins with a line that names its columns")
    return Csv(schema, header, encoding)


def check_encoding(encoding: str) -> str:
    """An encoding of lines as it is given on. Raises `Misuse` where Python has none of that name,
    or where the end of a line is not what it is in ASCII.
    """
    ascii_ = bytes(range(128))
    try:
        is_wider = ascii_.decode(encoding) == ascii_.decode("ascii")
    except (LookupError, UnicodeError):
        is_wider = False
    if not is_wider:
        raise Misuse(
            f"encoding {encoding!r}: utf-8, latin-1, windows-1252, or another that Python knows "
            "and that has ASCII in it"
        )
    return encoding.lower()
