"""What `tutti lineage rebuild` says while it waits."""

import pytest

from tutti.cli.failures import Failure
from tutti.contracts.lineage.v1 import Graph
from tutti.lineage.commands.rebuilding import complete, waits_for


def test_a_graph_is_whole_when_nothing_is_unlisted_unread_or_doubted() -> None:
    assert waits_for(Graph(vertices=3, edges=2, manifests=1, unreadable=1)) == ""
    waiting = Graph(unlisted=["a", "b", "c", "d", "e", "f", "g"], unread=2, doubted=1000)
    assert waits_for(waiting) == (
        "a, b, c, d, e and 2 more must be listed, 2 manifests must be read, 1,000 rows must be compared"
    )


def test_the_wait_ends_with_the_whole_graph() -> None:
    looks = iter([Graph(unlisted=["jobs"], doubted=2), Graph(doubted=2), Graph(vertices=7)])
    assert complete(lambda: next(looks), 60).vertices == 7


def test_a_wait_beyond_its_deadline_names_what_is_missing() -> None:
    with pytest.raises(Failure, match=r"not whole after 0 s: jobs must be listed; the rebuild continues"):
        complete(lambda: Graph(unlisted=["jobs"]), 0)
