"""The history of the tables of annotation."""
