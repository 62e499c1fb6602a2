"""What the effects of each machine do: one interpreter a machine, for every shell that runs it.

merger_io.py         append, seal, read; what a full disk, an error or another writer become
replica_io.py        read the sources, read ahead, drain; checkpoints
supervisor_io.py     the job's directory; lives are started and ended by the shell
"""
