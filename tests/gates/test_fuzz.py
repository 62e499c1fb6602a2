"""The fuzzer needs atheris, which is not installed here; what it starts from must work anyway.

A stand-in for atheris lets its module be imported, in a process of its own (it changes how modules
are found), and every target is fed with its own seeds.
"""

import subprocess
import sys

from tests.gates.repository import ROOT

FEED = """
import contextlib, runpy, sys, types

atheris = types.ModuleType("atheris")
atheris.instrument_imports = lambda **_: contextlib.nullcontext()
sys.modules["atheris"] = atheris
fuzzer = runpy.run_path(sys.argv[1], run_name="fuzzer")
for name, target in fuzzer["TARGETS"].items():
    seeds = list(target.seeds())
    taken = 0
    for seed in seeds:
        with contextlib.suppress(fuzzer["GaplessError"]):
            target.run(seed)
            taken += 1
    print(name, taken > 0)
"""


def test_every_fuzz_target_takes_the_seeds_that_it_starts_from() -> None:
    program = ROOT / "fuzz" / "fuzz_decoders.py"
    run = subprocess.run(
        [sys.executable, "-c", FEED, str(program)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    said = dict(line.split(maxsplit=1) for line in run.stdout.splitlines())
    parts = ("frame", "schema", "document", "expression", "punctuation", "text")
    targets = (*parts, "arrow-body", "msgpack-body", "filter", "lines", "rows")
    assert said == dict.fromkeys(targets, "True")
