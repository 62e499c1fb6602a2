"""`gapless prepare --infer`: a schema to edit, written once, without Spark."""

from __future__ import annotations

from pathlib import Path

from tests.gapless.command import Gapless

CSV = "id,ts,src,a b\n1,2026-01-01T00:00:00Z,x,2.5\n2,2026-01-01T00:00:01Z,,3\n"
WANTED = """\
# The time is ts: prepare with --time ts. Rows looked at: 2.
id = "int64"
ts = "timestamp[ms, tz=UTC]"
src = "string"  # had null
"a b" = "double"
"""


def test_the_command_writes_it_once(gapless: Gapless, tmp_path: Path) -> None:
    path, to = tmp_path / "flows.csv", tmp_path / "flows.toml"
    path.write_text(CSV)
    outcome = gapless("prepare", path, "--infer", to)
    assert outcome.code == 0, outcome.err
    assert to.read_text() == WANTED
    assert f"--schema {to}" in outcome.out
    for other, says in ((to, "there already"), (tmp_path / "flows.txt", "TOML")):
        refused = gapless("prepare", path, "--infer", other)
        assert refused.code == 2
        assert says in refused.err
    refused = gapless("prepare", path)
    assert refused.code == 2
    assert "--out JOURNAL: name the journal" in refused.err
