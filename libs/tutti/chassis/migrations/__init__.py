"""The history of the tables of the chassis, which are in the database of every service."""
