"""The history of the tables of lineage."""
