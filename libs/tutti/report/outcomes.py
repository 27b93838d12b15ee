"""Explanations of the short names of a crawl's and a filter's outcomes, for readers of a report."""

_SAID = {
    "visited/page": "a page; its text is used",
    "visited/no_index": "a page that asks not to be kept; only its links are used",
    "visited/redirect": "leads to another URL",
    "visited/not_ok": "answered, but not with success",
    "visited/not_text": "answered with something else than text",
    "visited/failed": "no answer that could be used",
    "left/elsewhere": "not below the addresses of the crawl",
    "left/excluded": "below an address that is left out",
    "left/too_deep": "too many links away from where the crawl began",
    "left/trap": "a path in circles, or one of too many alike",
    "left/limit": "more pages than the crawl, or a host, may have",
    "left/redirects": "behind too many redirects",
    "refused/robots": "its host does not allow it",
    "refused/robots_unavailable": "whether its host allows it could not be asked",
    "refused/robots_delay": "its host wants longer pauses than are made",
    "found": "not decided yet",
    "waiting": "not visited yet",
}
_REASONS = {
    "too_large": "larger than a file may be",
    "unreadable": "could not be read",
    "not_a_file": "a socket, a pipe or a device",
    "link_outside": "a link out of the folder",
    "link_broken": "a link to nowhere, or in a circle",
    "link_repeated": "a link to a folder that is read at its own place",
    "hidden": "a name that begins with a dot",
    "data_directory": "a folder in which a platform of Tutti keeps what it makes",
    "name_not_unicode": "a name that is no Unicode",
    "name_taken": "the same name in another Unicode form came before",
    "pdf": "not read; to be converted first",
    "binary": "no text",
    "undecodable": "in no character set that is known",
    "too_deep": "elements nested too deep, with too many attributes, or left open too often",
    "empty": "no text was left of it",
    "malformed": "a record that is not of the form of its file",
    "no_text": "without the field of texts",
    "table": "a table",
    "damaged": "cut short, or not to be decompressed",
    "not_ok": "what its server answered was no success",
    "repeated": "the same source with the same text came before",
    "language": "none of those that are wanted; und: none for certain",
    "retracted": "left out by a retraction",
    "contaminated": "holds a text for evaluation",
    "contaminated-near": "is nearly a text for evaluation",
}


def outcome(what: str) -> str:
    """The outcome of a URL, in words; "" for a name without an explanation."""
    return _SAID.get(what, "")


def reason(name: str) -> str:
    """The reason why a page was left out, in words; "" for a name without one, such as a rule that states its
    threshold.
    """
    return _REASONS.get(name, "")
