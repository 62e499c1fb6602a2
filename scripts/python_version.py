"""Stops with one sentence where Python is too old for Gapless.

Runs on the Python that would be used for .venv, so it keeps to forms that old ones can read.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  # this file is here to run on older ones
    sys.exit(
        "Gapless needs Python 3.11 or newer, and this is {}.{}: "
        "install one and name it, as in `make test PYTHON=python3.12`.".format(*sys.version_info)
    )
