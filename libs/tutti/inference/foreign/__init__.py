"""Models in the folders of Hugging Face: read as they are, or refused by the name of the file and of the key."""
