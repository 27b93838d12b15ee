"""The history of the tables of ingest."""
