"""The history of the tables of chat."""
