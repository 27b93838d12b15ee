"""The history of the tables of sampling."""
