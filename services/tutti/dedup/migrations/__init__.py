"""The history of the tables of dedup."""
