"""The engines that a user would pick instead, run beside ours: see README.md.

`run_*.py` are programs, one an engine, each run by an interpreter that has that engine and, but for
`run_gapless.py`, nothing of ours: they import no module of this package. Those are

    workload.py       the files that all engines read
    environments.py   an interpreter for each engine
    runner.py         one run of a program, with a limit to its time
"""
