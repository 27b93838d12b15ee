"""Counts: what a text is like, by its characters, words and lines, and which of its lines a cleaning keeps.

Pure functions of texts; `statistics.c` is a faster way to the same.
"""
