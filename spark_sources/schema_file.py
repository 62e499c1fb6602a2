"""Files that an option names: a schema, or other text. What is wrong with one is said in one way.

    --schema flows.toml       ts = "timestamp[ms]"
                              src = "int32"

What may stand in a schema is in `protocol/schema_file.py`, which reads no files. Nothing here needs
Spark: `gapless ingest` reads its schema here, too.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from gapless.protocol.errors import Misuse
from gapless.protocol.schema_file import KINDS, parse_schema_text


def read_schema(path: str | Path) -> pa.Schema:
    """The schema in the file of `--schema`."""
    kind = KINDS.get(Path(path).suffix.lower())
    if kind is None:
        raise Misuse(f"--schema {str(path)!r}: its name is to end in {' or '.join(KINDS)}")
    return parse_schema_text(text_of(path, "--schema"), kind)


def text_of(path: str | Path, option: str) -> str:
    """The text of the file that an option names."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise Misuse(f"{option} {str(path)!r} does not read: {e}") from None
