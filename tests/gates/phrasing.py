"""Phrasings that a newcomer has to decode, each with what to write instead.

    who is none                is not one, is invalid
    goes on with               continues with, resumes with

They are sought in whatever people read: documents, docstrings, comments, messages, `--help`. A
phrase may go over the end of a line, also in a comment. Names in code (`test_whoever_asks`) and
decisions, which are kept as they were written, are left alone.

A change that adds one mends its places. A replacement is a suggestion: the better sentence often
needs neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

BANNED: Mapping[str, str] = {
    r"the begin": "the beginning, the start",
    r"from begin": "from beginning",
    r"(?:who|that|which|it|this|one|they) (?:is|are|was|were) (?-i:none)(?! of)": "is not one",
    r"(?:go|goes|going|went) on with": "continues with, resumes with, changes to",
    r"in a row": "consecutive, in succession",
    r"once more": "again",
    r"as ever(?! \w+ed)": "as before, as usual",
    r"(?:the|its|their) midst": "the middle",
    r"seldom": "rarely, less often",
    r"that there (?:is|are|was|were) not(?=[.,;:)])": "unknown, absent",
    r"(?:tell|tells|told|telling) of": "reports, told about",
    r"(?:say|says|said|saying) again": "repeated, resent",
    r"by turns": "in turn",
    r"looks? on(?=[.,;:)])": "observes",
    r"for nothing": "in vain",
    r"be what is desired": "reconciles what runs with what is desired",
    r"held for durable": "called durable",
    r"(?:to|for|of|from|by|with|behind|than) who(?!,|\sin\s)": "to the one that, the caller",
    r"whoever": "the caller, the writer, anyone who",
    r"no sooner": "no earlier",
    r"befall\w*|befell": "happens to",
    r"at hand": "available, in memory",
    r"in case that": "if",
    r"comes to be": "begins",
    r"but for": "except for",
    r"(?:whence|thence|thereof|thereby|hitherto|forthwith|nought)": "plain words",
}
"""A pattern of whole words, and what to write instead. A space is any space or end of a line."""

BETWEEN = r"(?:\s+(?:(?:#|//)\s+)?)"
"""What may be between two words: also the end of a line of a comment."""
PHRASES = {
    re.compile(rf"(?<![\w`./-]){pattern.replace(' ', BETWEEN)}(?![\w`])", re.IGNORECASE): instead
    for pattern, instead in BANNED.items()
}


def found(text: str) -> Iterator[tuple[int, str, str]]:
    """Each banned phrase of a text: its line, the phrase, and what to write instead."""
    for phrase, instead in PHRASES.items():
        for match in phrase.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield line, " ".join(re.sub(r"\n\s*(?:#|//)", " ", match[0]).split()), instead
