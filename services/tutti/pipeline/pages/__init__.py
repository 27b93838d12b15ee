"""The web pages of runs and of the platform's status."""
