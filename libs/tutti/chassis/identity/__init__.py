"""Who makes a call: roles, principals, causes, signatures."""
