"""Drills: scenarios with real faults, played on a real cluster."""
