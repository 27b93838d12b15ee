"""The history of the tables of pipeline."""
