"""What is generated from protos/: messages and stubs."""
