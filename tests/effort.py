"""How hard a run of the tests tries: `make test` takes a share of the cases of `make check`.

HYPOTHESIS_PROFILE names the effort, for Hypothesis and for the loops of our own that draw cases
from seeds: "quick" for `make test`, "gate" (the default) for `make check`, "long" for a night.
"""

from __future__ import annotations

import os

QUICK_SHARE = 0.4
"""Of the cases of "gate": planted faults that need more than this are `make check`'s to find."""


def cases(count: int) -> int:
    """How many of so many cases this run plays."""
    is_quick = os.environ.get("HYPOTHESIS_PROFILE") == "quick"
    return round(count * QUICK_SHARE) if is_quick else count
