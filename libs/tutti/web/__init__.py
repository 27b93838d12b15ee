"""Pages: what a service with HTTP routes is made of."""
