"""Processes: host, supervisor, container, front door, worker pools, loops, health, logs."""
