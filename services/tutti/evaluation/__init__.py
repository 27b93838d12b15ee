"""Evaluation: keeps comparisons."""
