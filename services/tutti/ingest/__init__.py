"""Ingest: pages become documents."""
