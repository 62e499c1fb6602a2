"""One run of `gapless merge`: plays inputs through LMerge, and tells what comes of it.

    scripts     line --> player --> output of that line, in text notation
    recordings  frame of input i --> player --> output, as text or into a file

A *document* gathers what a program reads: the output by line or frame, who was detached, the first
break of a rule, divergences, statistics. For people the same is printed as it happens, problems on
stderr.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gapless.commands.merge_options import Order
from gapless.commands.terminal import print_json, progress_bar

if TYPE_CHECKING:
    from gapless.commands.recorded import RecordedStream
    from gapless.merge.lmerge import LMerge
    from gapless.merge.play import Heard, Player
    from gapless.merge.policy import Policy
    from gapless.merge.script import Script
    from gapless.protocol.frame import Frame
    from gapless.protocol.schema import StreamSchema

STDIN = Path("-")
PROGRESS_STEPS = 100
"""A bar moves in percents: one step for each batch would draw more than it merges."""


class MergeSession:
    """One run of the command: prints as it goes, or gathers one document."""

    def __init__(self, case: Any, policy: Policy, check: bool, as_json: bool) -> None:
        self._case = case
        self._policy = policy
        self._check = check
        self._as_json = as_json
        self._problem = False

    def _player(self, schema: StreamSchema) -> Player:
        from gapless.merge.play import Player

        return Player(schema, self._case, self._policy, check=self._check)

    # -- scripts ------------------------------------------------------------------------------

    def merge_scripts(self, sources: list[Path], schema: StreamSchema | None) -> bool:
        """Parses all scripts, then plays them; returns whether a problem was found."""
        from gapless.merge.script import SEPARATOR, parse_scripts
        from gapless.protocol.text import DEFAULT_SCHEMA

        schema = schema or DEFAULT_SCHEMA
        scripts = [s for path in sources for s in parse_scripts(_read(path), schema, str(path))]
        documents = []
        for i, script in enumerate(scripts):
            if i and not self._as_json:
                typer.echo(SEPARATOR)
            document = self._play(script, schema)
            documents.append(document)
            if document["break"] is not None:
                break
        if self._as_json:
            print_json({"problem": self._problem, "scripts": documents})
        return self._problem

    def _play(self, script: Script, schema: StreamSchema) -> dict[str, Any]:
        player = self._player(schema)
        document: dict[str, Any] = {
            "source": script.source,
            "lines": [],
            "detached": [],
            "break": None,
        }
        for step in script.steps:
            heard = player.step(step)
            line = _text(heard.out)
            if line:
                document["lines"].append({"line": step.line, "out": line})
                self._say(line)
            self._note(f"{script.source}: line {step.line}", step.line, step.name, heard, document)
            if heard.breaches:
                break
        self._conclude(f"{script.source}: ", player, document)
        return document

    # -- files --------------------------------------------------------------------------------

    def merge_files(
        self,
        paths: list[Path],
        schema: StreamSchema | None,
        order: Order,
        out: Path | None,
    ) -> bool:
        """Merges recordings; returns whether a problem was found."""
        from contextlib import ExitStack

        from gapless.commands.recorded import RecordedStream, RecordedStreamWriter, interleave
        from gapless.merge.script import Attach

        recordings: list[RecordedStream] = []
        for path in paths:
            recordings.append(RecordedStream(path, schema))
            schema = recordings[0].schema
        if out is not None:
            _refuse_overwriting(out, paths)
        assert schema is not None  # noqa: S101 - there is one recording at least
        player = self._player(schema)
        names = [
            f"{path} ({i})" if paths.count(path) > 1 else str(path) for i, path in enumerate(paths)
        ]
        for name in names:
            player.step(Attach(0, name))
        document: dict[str, Any] = {"lines": [], "detached": [], "break": None}
        elements, began = 0, time.monotonic()
        with ExitStack() as stack:
            advance = stack.enter_context(progress_bar("merging", PROGRESS_STEPS))
            frames = interleave(recordings, order is Order.BY_VS, advance, PROGRESS_STEPS)
            recorder = (
                None if out is None else stack.enter_context(RecordedStreamWriter(out, schema))
            )
            for number, (i, frame) in enumerate(frames):
                heard = player.say(names[i], (frame,))
                elements += len(frame) + (frame.stable is not None)
                for given in heard.out:
                    if recorder is not None:
                        recorder.write(given)
                    else:
                        self._keep(number, given, document)
                self._note(f"frame {number}, of {names[i]}", number, names[i], heard, document)
                if heard.breaches:
                    break
        document |= {"elements": elements, "seconds": round(time.monotonic() - began, 3)}
        self._conclude("", player, document)
        self._finish_files(recordings, document, out)
        return self._problem

    def _keep(self, number: int, given: Frame, document: dict[str, Any]) -> None:
        line = _text((given,))
        if self._as_json:
            document["lines"].append({"frame": number, "out": line})
        self._say(line)

    def _finish_files(
        self, recordings: list[RecordedStream], document: dict[str, Any], out: Path | None
    ) -> None:
        for recording in recordings:
            if document["break"] is None and recording.bytes_read < recording.bytes_total:
                self._problem = True
                _warn(f"{recording.path}: the record at byte {recording.bytes_read} is torn")
        if self._as_json:
            print_json({"problem": self._problem} | document)
        elif out is not None:
            output = document["output"]
            typer.echo(
                f"{document['elements']} elements of {len(recordings)} inputs in "
                f"{document['seconds']:.1f} s, case {document['case']}: {output['inserts']} "
                f"inserts, {output['adjusts']} adjusts, {output['stables']} stables"
            )

    # -- saying -------------------------------------------------------------------------------

    def _say(self, line: str) -> None:
        if not self._as_json:
            sys.stdout.write(line + "\n")

    def _note(
        self, place: str, number: int, name: str, heard: Heard, document: dict[str, Any]
    ) -> None:
        """Prints what went wrong at a place, and adds it to the document."""
        from gapless.merge.compatible import RULES_EXPLAINED

        if heard.skipped:
            _warn(f"{place}: {name} is detached: skipped")
        if heard.detached is not None:
            self._problem = True
            _warn(f"{place}: {name} is detached: {heard.detached}")
            document["detached"].append(
                {"at": number, "input": name, "reason": str(heard.detached)}
            )
        if heard.breaches:
            self._problem = True
            document["break"] = {
                "at": number,
                "rules": [{"rule": b.rule, "why": b.why} for b in heard.breaches],
            }
            for breach in heard.breaches:
                _warn(f"{place}: {breach}")
            _warn(RULES_EXPLAINED)

    def _conclude(self, place: str, player: Player, document: dict[str, Any]) -> None:
        """What there is to tell once all is said, or at the break."""
        from gapless.protocol.elements import format_time

        merge, samples = player.merge, player.divergences()
        document |= _state(merge) | {"divergence_samples": samples}
        count = merge.divergences.count
        if count:
            self._problem = True
            for sample in samples:
                _warn(f"{place}divergence: {sample}")
            shown = "" if count == len(samples) else f", the first {len(samples)} are shown"
            _warn(f"{place}{count} divergence{'s' * (count > 1)}{shown}")
        document["waiting_for"] = None if document["break"] else player.waiting_for()
        if document["waiting_for"] is not None:
            _warn(
                f"{place}the output is stable to {format_time(merge.stable)}; "
                f"it waits for {document['waiting_for']}"
            )


def _refuse_overwriting(out: Path, paths: list[Path]) -> None:
    """Inputs are memory-mapped while the output is written: it must not be one of them."""
    from gapless.protocol.errors import Misuse

    for path in paths:
        if out.exists() and out.samefile(path):
            raise Misuse(f"{out}: is an input, {path}; write the output to another file")


def _warn(text: str) -> None:
    typer.echo(f"gapless: {text}", err=True)


def _read(path: Path) -> str:
    from gapless.protocol.errors import Misuse
    from gapless.protocol.text import TEXT_CHARS_MAX

    try:
        if path == STDIN:
            return sys.stdin.read(TEXT_CHARS_MAX + 1)
        with path.open(encoding="utf-8", newline="\n") as file:
            return file.read(TEXT_CHARS_MAX + 1)  # one more than is parsed: too long is said so
    except OSError as e:
        raise Misuse(f"{path}: cannot be read: {e.strerror}") from None
    except UnicodeDecodeError as e:
        why = f"is no UTF-8 text: {e.reason} at byte {e.start}"
        raise Misuse(f"{path}: {why}; a recording? add --files") from None


def _text(frames: tuple[Frame, ...]) -> str:
    from gapless.protocol import text

    return text.format(e for frame in frames for e in frame.elements())


def _state(merge: LMerge) -> dict[str, Any]:
    """A merger's statistics at the end."""
    stats = merge.stats
    return {
        "case": merge.case,
        "steps": [{"before": s.before, "after": s.after, "why": s.why} for s in merge.steps],
        "divergences": merge.divergences.count,
        "output": {
            "inserts": stats.inserts,
            "adjusts": stats.adjusts,
            "stables": stats.stables,
            "live_keys": stats.live_keys,
        },
    }
