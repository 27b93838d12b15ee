"""Mutation testing of the modules that decide: whether a test fails for every small change of their code."""
