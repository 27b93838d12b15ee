"""Rows of a service: units of work, resources, tasks, leases, the audit trail, the identity of a stack."""
