"""The Spark shell of the journal: its data source, and the job that prepares rows for replicas."""
