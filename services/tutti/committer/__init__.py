"""The committer: decides which snapshots are checkpoints, and makes them visible."""
