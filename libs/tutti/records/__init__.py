"""Records: canonical JSON and its digests, typed reading of JSON, hashed dataclasses that can grow."""
