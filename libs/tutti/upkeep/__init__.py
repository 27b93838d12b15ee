"""Upkeep of a platform: backups, scrubs, checks and upgrades."""
