"""The framework of every service: lifecycle, unit of work, tasks, loops, gRPC, health, telemetry, simulation."""
