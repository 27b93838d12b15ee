"""The trial of docker-compose.yml on a container engine."""
