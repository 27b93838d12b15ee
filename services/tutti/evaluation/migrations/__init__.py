"""The history of the tables of evaluation."""
