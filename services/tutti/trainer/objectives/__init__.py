"""Objectives: what a step learns from. Each is one module; all share barrier, checkpoints and recovery."""
