"""Bytecode of our own modules: compiled once for each machine, and not at each boot of a process.

    PYTHONDONTWRITEBYTECODE=1, installed from its sources: no import leaves bytecode behind
    boot of a process    250 modules of ours are compiled    as dear as the rest of their import
    afterwards           they are read                       half of that

Where imports leave bytecode, and where pip has made it, there is nothing to do. Else it is made
once, explicitly, as pip makes it whatever that variable says. It names the content of its source,
not its time: an edited source never meets the bytecode of another.
"""

from __future__ import annotations

import importlib.util
import logging
import py_compile
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

_log = logging.getLogger("gapless.actors")
_HEADER_BYTES = 16
"""Of a file of bytecode (PEP 552): magic, flags, the hash of its source."""
_CHECKED_HASH = (3).to_bytes(4, "little")


def keep_bytecode(package: str = "gapless") -> int:
    """Writes the bytecode of all modules of a package that this process has imported, where imports
    do not and it is missing; how many. Nothing where it cannot be written: it costs CPU alone.
    """
    if not sys.dont_write_bytecode:
        return 0
    written = 0
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is None or name.partition(".")[0] != package:
            continue
        try:
            written += _keep(spec)
        except (OSError, py_compile.PyCompileError) as e:
            _log.info("each process of a job compiles what it imports: no bytecode: %s", e)
            break  # neither would the next one be written
    return written


def _keep(spec: ModuleSpec) -> bool:
    """Whether it was missing, and is there now."""
    if spec.cached is None or spec.origin is None or not spec.origin.endswith(".py"):
        return False
    source, kept = Path(spec.origin), Path(spec.cached)
    digest = importlib.util.source_hash(source.read_bytes())
    wanted = importlib.util.MAGIC_NUMBER + _CHECKED_HASH + digest
    if kept.exists():
        with kept.open("rb") as file:
            if file.read(_HEADER_BYTES) == wanted:
                return False
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    py_compile.compile(str(source), str(kept), doraise=True, invalidation_mode=mode)
    return True
