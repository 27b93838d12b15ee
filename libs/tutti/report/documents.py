"""The pages that a run read, each with its outcome."""

from collections.abc import Iterator

from tutti.client import Client
from tutti.contracts.lineage.v1 import ListDocumentsRequest, ListedDocument

PAGE = 10_000


def listed(client: Client, run: str, what: str, source: str) -> Iterator[ListedDocument]:
    """The pages of a run, in the order of their sources."""
    token = ""
    while True:
        request = ListDocumentsRequest(run=run, what=what, source=source, page_size=PAGE, page_token=token)
        page = client.lineage.ListDocuments(request)
        yield from page.documents
        token = page.next_page_token
        if not token:
            return
