"""The agent of a node: attempts, its ranks and the calls to the services."""
