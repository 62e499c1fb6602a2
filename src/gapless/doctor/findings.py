"""What a check says, and the one place where a check is carried out.

A check has two halves. The probe looks at the machine and gives facts; the judge is a pure
function from those facts to a verdict. Tests feed the judges facts that no available machine has,
and give `look` probes that fail; neither needs Java, Spark or Ray.

A doctor that falls over on a sick machine is of no use: whatever goes wrong inside a probe, its
own line says so (`unknown`), and the other lines still appear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Generic, Literal, TypeVar

Status = Literal["ok", "hint", "problem", "unknown", "skipped"]
"""`hint`: it works as it is, and would work better if the advice were taken."""
Facts = TypeVar("Facts")


class CannotLook(Exception):
    """A probe has no way to see what it was sent for; `advice` says how it could."""

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(why)
        self.advice = advice


class Skipped(Exception):
    """What a probe would try is known to fail, for a reason that another line has told."""


@dataclass(frozen=True)
class Verdict:
    """What a judge makes of the facts: fine as it is, or what to do about it."""

    status: Status
    found: str
    """The fact itself, with the bound that it breaks if it breaks one."""
    advice: str | None = None
    """What to do next; None when all is well, or another line says it."""

    def __post_init__(self) -> None:
        if (self.status in ("ok", "skipped")) != (self.advice is None):
            raise ValueError(
                f"{self.status} with advice {self.advice!r}: only `ok` and `skipped` go without"
            )


@dataclass(frozen=True)
class CheckResult:
    """One line of the doctor's report: a check's name and its verdict."""

    check: str
    verdict: Verdict

    def to_json(self) -> dict[str, str | None]:
        """One object: `check status found advice`."""
        return {"check": self.check, **asdict(self.verdict)}


@dataclass(frozen=True)
class Check(Generic[Facts]):
    """A name, a probe that gives facts, and a judge of those facts."""

    name: str
    probe: Callable[[], Facts]
    judge: Callable[[Facts], Verdict]

    def look(self) -> CheckResult:
        """Probes and judges. Never raises: a probe that fails makes the finding `unknown`."""
        try:
            verdict = self.judge(self.probe())
        except Skipped as why:
            verdict = Verdict("skipped", str(why))
        except CannotLook as why:
            verdict = Verdict("unknown", str(why), why.advice)
        except Exception as failure:  # noqa: BLE001 - one check's failure leaves the others standing
            what = f"could not look: {type(failure).__name__}: {failure}"
            verdict = Verdict("unknown", what, "put that right, or report it with this line")
        return CheckResult(self.name, verdict)


def exit_code(findings: Iterable[CheckResult]) -> int:
    """1 when any check found a problem; else 2 when any could not look; else 0, hints or not. What
    was skipped counts as the line that says why.
    """
    statuses = {finding.verdict.status for finding in findings}
    return 1 if "problem" in statuses else 2 if "unknown" in statuses else 0
