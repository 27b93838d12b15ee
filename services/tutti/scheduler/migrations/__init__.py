"""The history of the tables of scheduler."""
