"""Staging: a task that reads a resource without a result fails without another attempt."""

from pathlib import Path

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.tasks import WorkFailed
from tutti.records.manifest import Kind
from tutti.staging import fetching


def test_a_resource_without_a_result_ends_the_task_that_reads_it(tmp_path: Path) -> None:
    """Not tried again, as a defect would be."""
    blobs = EmbeddedBlobs(tmp_path)
    with pytest.raises(WorkFailed, match=r"there is no manifest to read.*name a resource that is done"):
        fetching.manifest(blobs, "", "", Kind.SAMPLE)
    with pytest.raises(WorkFailed, match="there is no blob to read"):
        fetching.small(blobs, "")
