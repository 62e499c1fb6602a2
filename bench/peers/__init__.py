"""The engines that a user would pick instead, run beside ours: see README.md.

`run_*.py` are programs, one an engine, each run by an interpreter that has that engine and, except
for `run_gapless.py`, nothing of ours: they import no module of this package. Those are

    workload.py       the files that all engines read
    environments.py   an interpreter for each engine
    runner.py         one run of a program, with a limit to its time

and, for how long Flink is silent when its worker dies,

    recovery.py         the run and what it shows; run_flink_recovery.py is its program
    recovery_stream.py  the events, in SQL and in numpy, and the right answers
    flink_cluster.py    three processes on loopback, and what they are told
    processes.py        processes that end with the one that started them
"""
