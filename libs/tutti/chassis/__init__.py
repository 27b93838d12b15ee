"""What every service is made of: lifecycle, unit of work, tasks, loops, gRPC, health, telemetry, simulation."""
