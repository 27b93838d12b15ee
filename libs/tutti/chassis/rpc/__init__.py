"""Calls: the server, channels, the typed client, watches, kinds of resources."""
