"""The disk that the output is written to is full for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.small_disk import SmallDisk, why_not

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class FillDisk(Fault):
    """Output waits, and goes on once there is room: nothing is half written."""

    name = "fill disk"
    about = "The disk below the job's output is full for a while."
    lasts = 3.0
    settings = {"megabytes": 64}  # noqa: RUF012  # the class says that it does not change
    bears_random = False
    _disk: SmallDisk

    @classmethod
    def why_not(cls) -> str | None:
        """It takes a small disk."""
        return why_not()

    def setup(self, stage: Stage) -> None:
        """Mounts it where the output will be."""
        stage.job_dir.mkdir(parents=True, exist_ok=True)
        self._disk = SmallDisk(
            stage.job_dir / "out", round(self.number("megabytes")), stage.janitor
        )

    def inject(self, stage: Stage) -> Hit:  # noqa: ARG002  # the disk is known without it
        """Fills it."""
        self._disk.fill()
        return Hit("output", f"{self.setting('megabytes')} MB, to the last byte")

    def heal(self, stage: Stage) -> None:  # noqa: ARG002  # the disk is known without it
        """Makes room."""
        self._disk.free()
