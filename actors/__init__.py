"""Ray shells of the state machines in `failover`, and the handle of a job. They pump, no more."""
