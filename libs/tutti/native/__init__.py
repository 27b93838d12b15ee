"""Kernels in C: compiled with the wheel or where they run, each with a twin in Python."""
