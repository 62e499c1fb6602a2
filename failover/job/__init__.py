"""The job on disk: its directory, its record, its settings and its desired state."""
