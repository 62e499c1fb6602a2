"""Another module of a user's, with a memory of its own."""

calls = 0
_kept = {"calls": 0}


def counted() -> int:
    """How often it was called."""
    _kept["calls"] += 1
    return _kept["calls"]
