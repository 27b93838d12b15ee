"""The identity of a caller: roles, principals, causes, signatures."""
