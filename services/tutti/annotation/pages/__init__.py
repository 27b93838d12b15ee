"""The web pages of annotators and of owners of campaigns."""
