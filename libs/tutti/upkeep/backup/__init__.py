"""Backups of a platform: its databases at one moment, and its blobs."""
