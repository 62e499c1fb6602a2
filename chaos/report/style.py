"""How a report looks, and the little that moves in it: a style and a script, both within the page.

    page.css     colours of light and dark, three widths, print
    page.js      a cross-hair over the timeline; the page is complete without it

Colours are Okabe and Ito's, darker on light and lighter on dark: eyes that see red and green alike
can tell them apart. No meaning hangs on colour alone: states have patterns and words, verdicts
words and signs. The page's policy allows these two texts by their digests, and nothing else:
whatever got into the page from outside could neither run nor load anything.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from gapless.chaos.report.html import Html, el, joined

STYLE = Path(__file__).with_name("page.css")
SCRIPT = Path(__file__).with_name("page.js")


def document(title: str, *body: object) -> str:
    """A whole page. It loads nothing, and nothing but our own style and script has an effect."""
    style, script = _read(STYLE), _read(SCRIPT)
    policy = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", title),
        el("style", style),
    )
    page = el("html", head, el("body", joined(body), el("script", script)), lang="en")
    return f"<!doctype html>\n{page}\n"


@cache
def _read(path: Path) -> Html:
    return Html(path.read_text("utf-8"))


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
