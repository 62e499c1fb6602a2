"""Looks at an installed Gapless from inside: wheel_smoke.py REPOSITORY SDIST.

Runs on the Python of a clean venv, in an empty directory; the repository only says what to expect.
Every check is an expectation in plain words, and all that fail are named. The last one is what the
README promises: `gapless demo`, with a cluster, three kills and a verdict.
"""

import json
import pkgutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path


def broken_files(repository: Path) -> Iterator[str]:
    """The expectations of what an installed wheel holds that do not hold."""
    files = [Path(str(f.locate())) for f in metadata.files("gapless") or ()]
    names = [file.as_posix() for file in files]

    def holds(wanted: str) -> bool:
        return any(name.endswith(wanted) for name in names)

    folders = sorted(p.name for p in (repository / "src/gapless").iterdir() if p.is_symlink())
    for wanted in (
        *(f"/gapless/{folder}/__init__.py" for folder in folders),
        "/gapless/py.typed",
        "/gapless/kernels/_native.pyi",
        "/gapless/chaos/drill/library/soak.toml",
        "/gapless/chaos/report/page.css",
        "/gapless/chaos/report/page.js",
        "/licenses/LICENSE",
        "/licenses/NOTICE",
    ):
        if not holds(wanted):
            yield f"it holds {wanted}"
    for file in files:
        if file.is_symlink() or not file.is_file():
            yield f"{file} is a real file"
        if file.suffix in {".cpp", ".hpp"}:
            yield f"it holds no C++ source such as {file}"


PROGRAMS = ("gapless.bench.peers.run_", "gapless.bench.peers.compare")
"""Each runs by itself, with what it measures installed in an environment of its own."""
PLUGIN = "gapless.pytest_plugin"
"""pytest alone loads it, and is there then."""


def broken_imports() -> Iterator[str]:
    """The expectations of what can be imported that do not hold."""
    import gapless

    package = Path(gapless.__file__ or "").parent
    if not package.is_relative_to(sys.prefix):
        yield f"gapless is imported from the venv, not from {package}"
    for module in pkgutil.walk_packages(gapless.__path__, "gapless."):
        if module.name.startswith((*PROGRAMS, PLUGIN)):
            continue
        try:
            import_module(module.name)
        except ImportError as error:
            yield f"{module.name} can be imported: {error}"
    kernel = sys.modules["gapless.kernels"]
    if kernel.KERNEL != "native":
        yield f"it runs on the native kernel, not on the {kernel.KERNEL}"


def broken_command() -> Iterator[str]:
    """The expectations of the `gapless` command that do not hold."""
    version = metadata.version("gapless")
    command = str(Path(sys.executable).parent / "gapless")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    if done.returncode or version not in done.stdout:
        yield f"`gapless --version` prints {version}, not {done.stdout or done.stderr!r}"


DEMO_S_MAX = 300
"""It takes a minute on two idle cores; other checks may run beside it."""


def broken_demo() -> Iterator[str]:
    """The expectations of `gapless demo` that do not hold where there is no repository."""
    command = [str(Path(sys.executable).parent / "gapless"), "demo", "--rate", "5k", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEMO_S_MAX)
    if done.returncode:
        yield f"`gapless demo` exits with 0, not {done.returncode}: {done.stdout}{done.stderr}"
        return
    kills = [kill["what"] for kill in json.loads(done.stdout)["kills"]]
    if len(kills) != 3:
        yield f"`gapless demo` kills a replica, a merger and a node, not {kills}"


def broken_sdist(sdist: Path) -> Iterator[str]:
    """The expectations of a source distribution that do not hold."""
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    yield from (f"{m.name} in the sdist is a real file" for m in members if not m.isfile())
    names = {m.name.partition("/")[2] for m in members}
    for wanted in ("CMakeLists.txt", "LICENSE", "NOTICE", "src/gapless/protocol/frame.py"):
        if wanted not in names:
            yield f"the sdist holds {wanted}"
    for unwanted in ("tests/", "build/", "."):
        if any(name.startswith(unwanted) for name in names):
            yield f"the sdist holds nothing of {unwanted}"


def main(repository: str, sdist: str) -> str | None:
    """None where all is well; else what is not, one line each."""
    broken = [
        *broken_files(Path(repository)),
        *broken_imports(),
        *broken_command(),
        *broken_sdist(Path(sdist)),
        *broken_demo(),
    ]
    if broken:
        return "\n".join(f"not so: {expectation}" for expectation in broken)
    print(f"the wheel of Gapless {metadata.version('gapless')} works")
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
