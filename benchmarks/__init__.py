"""Benchmarks: each is a program that measures Tutti beside its peer in the same run.

`python -m benchmarks` runs those of the platform.
"""
