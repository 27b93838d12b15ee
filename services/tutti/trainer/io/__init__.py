"""The I/O child of a node: staged data, snapshots on disk and their storage."""
