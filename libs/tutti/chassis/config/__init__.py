"""Settings, the data directory, and recipes as text."""
