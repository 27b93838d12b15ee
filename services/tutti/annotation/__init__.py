"""Annotation: keeps campaigns."""
