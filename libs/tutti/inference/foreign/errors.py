"""The refusal of a folder."""


class NotImportable(Exception):
    """A folder holds something that Tutti cannot read, or not compute as its authors do: `key` of `file`."""

    def __init__(self, file: str, key: str, *, seen: object, expected: str) -> None:
        where = f"{file}: {key}" if key else file
        super().__init__(f"{where} is {seen!r}; expected {expected}")
        self.file, self.key, self.seen, self.expected = file, key, seen, expected
