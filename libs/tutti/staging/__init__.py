"""Artifacts of other services, fetched for a task: manifests, blobs and checkpoints."""
