"""Sampling: a checkpoint continues texts, or becomes files that others read."""
