"""The history of the tables of access."""
