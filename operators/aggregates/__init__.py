"""What an aggregate computes: functions, and their state by id."""
