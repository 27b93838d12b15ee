"""The chat page, and the calls of its script."""
