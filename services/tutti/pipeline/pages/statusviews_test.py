"""The view of the page `/status`, made of what the services tell."""

from tutti.client.overview import Copy, Overview, Work
from tutti.contracts.admin.v1 import DescribeResponse, DoctorResponse
from tutti.contracts.scheduler.v1 import NODE_STATE_LEFT, NODE_STATE_LOST, NODE_STATE_READY, Assignment, Node
from tutti.pipeline.pages.statusviews import SHOWN, ranges, status_view

INFO, FINDING = DescribeResponse.ServiceInfo, DoctorResponse.Finding


def test_ranks_are_written_as_ranges() -> None:
    assert [ranges(each) for each in ([], [4], [3, 0, 1, 2], [0, 2, 3])] == ["", "4", "0-3", "0, 2-3"]


def test_each_copy_of_a_service_is_shown_and_the_leader_is_marked() -> None:
    copies = [
        Copy("a:1", "1", INFO(name="dedup", ready=True, process="a:10", leader="b:20", term=3)),
        Copy("b:1", "1", INFO(name="dedup", ready=True, process="b:20", leader="b:20", term=4)),
        Copy("c:1", "", INFO(name="dedup", reason="no answer from c:1")),
    ]
    (service,) = status_view(Overview(copies)).services
    assert (service.healthy, service.leader, service.term) == (False, "b:20", 4)
    assert [(each.address, each.healthy, each.leads) for each in service.copies] == [
        ("a:1", True, False),
        ("b:1", True, True),
        ("c:1", False, False),
    ]
    assert service.copies[2].advice == ["no answer from c:1"]


def test_a_dependency_is_shown_once_with_the_services_that_see_it_so_and_what_is_away_comes_first() -> None:
    away = "blobs: connection refused; look at the server"
    findings = {
        "dedup": [FINDING(check="database", ok=True, message="it answers"), FINDING(check="blobs", message=away)],
        "ingest": [FINDING(check="database", ok=True, message="it answers"), FINDING(check="outbox", ok=True)],
    }
    copies = [Copy("a:1", "1", INFO(name=name, ready=True, findings=found)) for name, found in findings.items()]
    view = status_view(Overview(copies))
    assert [(each.name, each.ok, each.message, each.services) for each in view.dependencies] == [
        ("blobs", False, away, ["dedup"]),
        ("database", True, "it answers", ["dedup", "ingest"]),
    ]
    assert not view.ok


def test_nodes_that_need_attention_come_first_and_lost_ones_give_no_capacity() -> None:
    ranks = [Assignment(job="jobs/j", epoch=1, ranks=[0, 1])]
    nodes = [
        Node(name="nodes/a", state=NODE_STATE_READY, slots=4, assignments=ranks),
        Node(name="nodes/b", state=NODE_STATE_LOST, slots=4, reason="silent for 15 s", assignments=ranks),
        Node(name="nodes/c", state=NODE_STATE_LEFT, slots=4),
    ]
    view = status_view(Overview([], Work(nodes=nodes)))
    assert [(each.name, each.used) for each in view.nodes] == [("nodes/b", 0), ("nodes/c", 0), ("nodes/a", 2)]
    assert (view.used, view.slots) == (2, 4)
    many = [Node(name=f"nodes/{number:04}", state=NODE_STATE_READY) for number in range(SHOWN + 3)]
    assert status_view(Overview([], Work(nodes=many))).more_nodes == 3
