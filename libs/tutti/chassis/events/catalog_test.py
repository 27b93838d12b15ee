import pytest

from tutti.backbone import Kind
from tutti.chassis.events.catalog import BadCatalogue, event_type, every_event, markdown, topics_of
from tutti.contracts.scheduler.v1 import EpochOpened, Job, JobSpec, RankLost


def test_the_page_names_every_event() -> None:
    page = markdown(every_event())
    assert all(f"| `{each.topic}` | `{each.type}` | {each.kind.name} |" in page for each in every_event())


def test_topic_key_and_partitions_of_a_snapshot_and_of_a_fact() -> None:
    job, fact = event_type(Job), event_type(RankLost)
    assert (job.topic, job.key, job.kind, job.partitions, job.owner) == (
        "scheduler.jobs",
        "name",
        Kind.STATE,
        12,
        "scheduler",
    )
    assert (fact.topic, fact.key, fact.kind) == ("scheduler.jobs.facts", "job", Kind.FACT)


def test_a_topic_of_several_events_is_named_once() -> None:
    assert [topic.name for topic in topics_of([RankLost, EpochOpened, Job])] == [
        "scheduler.jobs",
        "scheduler.jobs.facts",
    ]


def test_a_message_without_the_option_is_no_event() -> None:
    with pytest.raises(BadCatalogue, match="JobSpec has no"):
        event_type(JobSpec)


def test_every_event_belongs_to_the_package_that_declares_it() -> None:
    for each in every_event():
        assert each.type.startswith(f"tutti.{each.owner}.v")
        assert each.topic.startswith(f"{each.owner}.")
