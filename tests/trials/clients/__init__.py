"""The trial of clients that others wrote, against a served checkpoint."""
