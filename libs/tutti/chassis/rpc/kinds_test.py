"""Kinds of resources: what the protos declare, and that their owners serve it."""

import pytest

from tutti.chassis.rpc.kinds import BadKind, Kind, every_kind, kind_of, named, owners, values
from tutti.chassis.rpc.methods import find_method
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.sampling.v1 import SampleSpec
from tutti.contracts.scheduler.v1 import Job, JobSpec, MixedDataset
from tutti.contracts.tokenization.v1 import Dataset, Index

WORK = {"spec", "state", "result"}
"""Fields of a kind of work."""


def verbs(kind: Kind) -> set[str]:
    """The calls that the kind's service declares for it."""
    path = f"/{kind.service}/"
    nouns = {"Create": kind.singular, "Get": kind.singular, "Cancel": kind.singular, "List": kind.plural.capitalize()}
    return {verb for verb, noun in nouns.items() if find_method(f"{path}{verb}{noun}")}


@pytest.mark.parametrize("kind", every_kind(), ids=lambda kind: kind.plural)
def test_every_kind_that_lineage_or_a_person_sees_can_be_got_and_listed(kind: Kind) -> None:
    if kind.columns or kind.digest:
        assert {"Get", "List"} <= verbs(kind)
    if set(kind.message.DESCRIPTOR.fields_by_name.keys()) >= WORK:
        assert verbs(kind) == {"Create", "Get", "List", "Cancel"}
    assert bool(kind.columns) == bool(kind.empty)


def test_a_message_without_the_option_is_no_kind() -> None:
    with pytest.raises(BadKind, match=r"SampleSpec has no \(tutti\.options\.v1\.resource\) option"):
        kind_of(SampleSpec)


def test_parents_are_read_from_names_digests_and_repeated_fields() -> None:
    spec = JobSpec(dataset_digest="blake3:a", mixed=[MixedDataset(digest="blake3:b"), MixedDataset()])
    job = Job(name="jobs/a", spec=spec)
    found = [(name, each.relation) for each in kind_of(Job).parents for name in each.names(job)]
    assert found == [("datasets/a", "trained"), ("datasets/b", "trained")]
    assert list(values(job, "spec.mixed.digest")) == ["blake3:b", ""]
    jobs = kind_of(Checkpoint).parents[0]
    assert [*jobs.names(Checkpoint(job="a")), *jobs.names(Checkpoint(job="jobs/a"))] == ["jobs/a", "jobs/a"]


def test_content_is_found_in_the_result_of_work_and_in_a_thing_itself() -> None:
    index, dataset = Index(), Dataset(manifest_key="k", content_digest="d")
    index.result.manifest_key, index.result.content_digest = "i", "e"
    for kind, resource, expected in ((kind_of(Index), index, ("i", "e")), (kind_of(Dataset), dataset, ("k", "d"))):
        assert (kind.manifest_key(resource), kind.content_digest(resource)) == expected
    assert kind_of(Job).manifest_key(Job()) == ""


def test_kinds_are_known_by_their_plural() -> None:
    assert named("checkpoints").message is Checkpoint
    assert owners()["checkpoints"] == "committer"
    with pytest.raises(KeyError):
        named("songs")
