"""The error of data that cannot be used."""


class Unusable(Exception):
    """Data of a platform or of a file cannot be used; the message says what to do."""
