"""Long work as resources, their reconcilers, and the blobs that they read."""
