"""Processes of a platform: hosts, the front door, the supervisor and worker pools."""
