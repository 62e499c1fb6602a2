"""Holds the coverage that `make coverage` has measured against the floor: the floor only rises.

The floor is the one number in coverage_floor.txt, in percent of statements and branches. Coverage
below it fails, and so does a floor below the committed one. Where coverage has grown, the verdict
says how to raise the floor.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FLOOR = ROOT / "coverage_floor.txt"
SLACK = 0.5
"""Percent: tests on real clusters take other branches each time, so a nearer floor flickers."""


def verdict(measured: float, floor: float, committed: float) -> tuple[bool, str]:
    """Whether it holds, and what to do next."""
    if floor < committed:
        return False, f"the floor was {committed} and only rises: put {committed} into {FLOOR.name}"
    if measured < floor:
        return False, (
            f"coverage is {measured:.1f} %, below the floor of {floor} %: test what you added "
            "(`.venv/bin/coverage report -m FILE` names its lines)"
        )
    reached = int((measured - SLACK) * 10) / 10
    if reached > floor:
        return True, (
            f"coverage is {measured:.1f} %: raise the floor of {floor} %, put {reached} into "
            f"{FLOOR.name}"
        )
    return True, f"coverage is {measured:.1f} %, the floor is {floor} %"


def committed_floor() -> float:
    """The floor at HEAD; 0 where there is no history, as in an archive, or no floor in it yet."""
    shown = subprocess.run(
        ["git", "show", f"HEAD:{FLOOR.name}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return float(shown.stdout) if shown.returncode == 0 else 0.0


def main() -> int:
    """Prints what is not covered, then the verdict."""
    import coverage

    measurement = coverage.Coverage(data_file=ROOT / ".coverage")
    measurement.load()
    measured = measurement.report()
    holds, sentence = verdict(measured, float(FLOOR.read_text("utf-8")), committed_floor())
    print(sentence, file=sys.stdout if holds else sys.stderr)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
