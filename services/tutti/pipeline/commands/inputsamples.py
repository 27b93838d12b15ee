"""The result of reading a sample of a recipe's folders, as lines for people."""

from collections.abc import Iterator, Sequence

from tutti.contracts.ingest.v1 import InputSample
from tutti.contracts.pipeline.v1 import InputReport
from tutti.judgements.intervals import Proportion

SHOWN = 5


def lines(inputs: Sequence[InputReport]) -> Iterator[str]:
    """Each folder with the counts of its sample, and the reasons of rejections."""
    for each in inputs:
        sample, rejected = each.sample, rejections(each.sample)
        whole = "all" if sample.complete else "the first"
        total = sample.documents + rejected
        yield f"{each.key}: {each.path}: of {whole} {total:,} pages and records {sample.documents:,} are read as text"
        if sample.unread_files:
            yield f"  nothing was read of {sample.unread_files:,} more files"
        for found in sample.rejections[:SHOWN]:
            yield f"  {found.records:,} rejected, {found.reason}: {found.path}: {found.detail}"


def warnings(inputs: Sequence[InputReport]) -> Iterator[str]:
    """A line for each folder of whose sample records are rejected: how many, why most of them, and the share."""
    for each in inputs:
        rejected = rejections(each.sample)
        total = each.sample.documents + rejected
        if rejected:
            first = each.sample.rejections[0]
            yield (
                f"{each.key}: {rejected:,} of {total:,} sampled pages and records would be rejected, "
                f"{Proportion.of(rejected, total)}; {first.records:,} as {first.reason}: {first.path}: {first.detail}"
            )


def rejections(sample: InputSample) -> int:
    """The number of rejected records of a sample."""
    return sum(each.records for each in sample.rejections)
