"""The history of the tables of committer."""
