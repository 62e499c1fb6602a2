"""The repository keeps its layers, and a module that does not is caught."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.gates.layering import (
    PACKAGE,
    PARSES_CSV,
    PROGRAMS,
    PURE,
    STANDS_ON,
    TOUCHES_THE_DISK,
    below,
    breaches,
    folder_breaches,
    repository_breaches,
)

ROOT = Path(__file__).parents[2]


def test_the_repository_keeps_its_layers() -> None:
    assert "\n".join(repository_breaches(ROOT)) == ""


def test_the_check_sees_the_repository() -> None:
    frame = (ROOT / "protocol" / "frame.py").read_text("utf-8")
    assert breaches("kernels/frame.py", frame), "kernels may not import protocol, as frame.py does"


# -- the table ------------------------------------------------------------------------------------


def test_what_a_folder_stands_on_is_transitive() -> None:
    assert below("actors") >= {"failover", "engine", "operators", "protocol", "kernels", "journal"}
    assert below("protocol") == frozenset()


def test_nothing_stands_on_itself() -> None:
    assert [folder for folder in STANDS_ON if folder in below(folder)] == []


def test_chaos_and_bench_stand_on_all_of_the_product() -> None:
    assert below("chaos") == STANDS_ON.keys() - {"chaos", "bench"}
    assert below("bench") == STANDS_ON.keys() - {"bench"}


def test_lint_bans_each_folder_by_its_bare_name() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    banned = config["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert banned.keys() == STANDS_ON.keys()


# -- layers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "import gapless.engine",
        "import gapless.engine.plan as p",
        "from gapless.engine import plan",
        "from gapless import engine",
        "def late():\n    from gapless.engine import plan",
        "if TYPE_CHECKING:\n    import gapless.engine",
        "import importlib\nimportlib.import_module('gapless.engine')",
        "from importlib import import_module as load\nload('gapless.engine.plan')",
        "__import__('gapless.engine')",
    ],
)
def test_an_upper_layer_cannot_be_imported_in_any_way(source: str) -> None:
    assert "merge imports gapless.engine, and stands on kernels, protocol" in " ".join(
        breaches("merge/r3.py", source)
    )


@pytest.mark.parametrize(
    "source", ["import gapless", "import gapless.cli", "from gapless import x"]
)
def test_no_folder_imports_the_front_door(source: str) -> None:
    assert "the front door" in " ".join(breaches("bench/kernel.py", source))


def test_a_users_program_imports_the_front_door_and_nothing_behind_it() -> None:
    (program,) = PROGRAMS
    assert breaches(program, "import gapless as gl") == []
    assert breaches(program, "from gapless.engine import plan")
    assert breaches("bench/engine.py", "import gapless as gl")


def test_relative_imports_are_refused_rather_than_followed() -> None:
    assert breaches("merge/r3.py", "from ..engine import plan")
    assert breaches("merge/r3.py", "from . import policy")


@pytest.mark.parametrize(
    "source",
    ["import gapless.merge.policy", "from gapless.protocol import Frame", "import gaplessly.cli"],
)
def test_own_folder_lower_folders_and_strangers_are_fine(source: str) -> None:
    assert breaches("merge/r3.py", source) == []


def test_a_breach_names_file_and_line() -> None:
    assert breaches("merge/r3.py", "\n\nimport gapless.engine")[0].startswith("merge/r3.py:3: ")


# -- purity ---------------------------------------------------------------------------------------

WORLDLY = [
    "import ray",
    "from pyspark.sql import SparkSession",
    "import grpc.aio",
    "import time",
    "from time import monotonic",
    "from datetime import datetime as d\nd.now()",
    "import datetime\nclock = datetime.datetime.now",
    "import asyncio",
    "from concurrent.futures import ThreadPoolExecutor",
    "import os.path",
    "from pathlib import Path",
    "import pathlib\npathlib.Path('x')",
    "open('x')",
    "import pyarrow as pa\npa.memory_map('x')",
    "import pyarrow.parquet as pq",
    "import numpy as np\nnp.load('x')",
    "import secrets",
    "from uuid import uuid4",
]

UNSEEDED = [
    "import random\nrandom.random()",
    "from random import shuffle",
    "import random\nr = random.Random()",
    "from random import Random as R\nR()",
    "import random\nrandom.SystemRandom(1)",
    "import numpy as np\nnp.random.default_rng()",
    "import numpy as np\nnp.random.rand(3)",
    "from numpy.random import randint",
]

HARMLESS = [
    "from datetime import datetime, timedelta\ndatetime.fromtimestamp",
    "from pathlib import PurePosixPath",
    "import io\nio.BytesIO()",
    "import random\nrandom.Random(7).random()",
    "import numpy as np\nnp.random.default_rng(seed=7).integers(3)",
    "import numpy as np\ndef f(rng: np.random.Generator) -> None: ...",
    "import pyarrow as pa\npa.ipc.open_stream",
    "class Door:\n    def open(self) -> None: ...\nDoor().open()",
]


@pytest.mark.parametrize("source", WORLDLY + UNSEEDED)
def test_a_pure_folder_cannot_name_the_world(source: str) -> None:
    assert breaches("merge/x.py", source)


@pytest.mark.parametrize("folder", sorted(PURE))
def test_the_core_and_the_journal_are_pure(folder: str) -> None:
    assert breaches(f"{folder}/x.py", "import time")


@pytest.mark.parametrize("source", HARMLESS)
def test_a_pure_folder_may_name_what_has_no_effect(source: str) -> None:
    assert breaches("merge/x.py", source) == []


@pytest.mark.parametrize("source", WORLDLY)
def test_the_one_module_that_touches_the_disk_may(source: str) -> None:
    assert breaches(TOUCHES_THE_DISK, source) == []


def test_one_module_may_give_bytes_to_arrows_reader_of_csv_and_nothing_else() -> None:
    assert breaches(PARSES_CSV, "from pyarrow import csv\ncsv.read_csv") == []
    assert breaches(PARSES_CSV, "import os")
    assert breaches("protocol/lines/x.py", "from pyarrow import csv")


@pytest.mark.parametrize("source", UNSEEDED)
def test_chaos_acts_on_the_world_but_replays_from_a_seed(source: str) -> None:
    assert breaches("chaos/x.py", source)
    assert breaches("chaos/x.py", "import subprocess, time") == []


# -- folders --------------------------------------------------------------------------------------


def _repository(root: Path, folder: str) -> Path:
    (root / "src" / PACKAGE).mkdir(parents=True)
    (root / folder).mkdir()
    (root / folder / "__init__.py").touch()
    (root / "src" / PACKAGE / folder).symlink_to(f"../../{folder}")
    return root


def test_a_folder_of_the_table_with_its_link_is_fine(tmp_path: Path) -> None:
    assert list(folder_breaches(_repository(tmp_path, "merge"))) == []


def test_a_folder_that_is_not_in_the_table_is_caught(tmp_path: Path) -> None:
    assert "not in STANDS_ON" in next(folder_breaches(_repository(tmp_path, "extras")))


def test_a_folder_without_its_link_is_caught(tmp_path: Path) -> None:
    (_repository(tmp_path, "merge") / "src" / PACKAGE / "merge").unlink()
    assert "ln -s ../../merge" in next(folder_breaches(tmp_path))


def test_a_link_that_only_holds_on_this_machine_is_caught(tmp_path: Path) -> None:
    link = _repository(tmp_path, "merge") / "src" / PACKAGE / "merge"
    link.unlink()
    link.symlink_to(tmp_path / "merge")
    assert "ln -s ../../merge" in next(folder_breaches(tmp_path))


def test_a_bad_module_deep_in_a_folder_is_caught(tmp_path: Path) -> None:
    deep = _repository(tmp_path, "merge") / "merge" / "deep"
    deep.mkdir()
    (deep / "x.py").write_text("import time")
    assert list(repository_breaches(tmp_path)) == [
        "merge/deep/x.py:1: merge is pure, and time is the clock"
    ]
