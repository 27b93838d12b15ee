"""Runs: their state machine, its driver and its tables."""
