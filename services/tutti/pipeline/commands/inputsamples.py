"""The result of reading a sample of a recipe's folders, as lines for people."""

from collections.abc import Iterator, Sequence

from tutti.contracts.ingest.v1 import InputSample
from tutti.contracts.pipeline.v1 import InputReport
from tutti.judgements.intervals import Proportion
from tutti.records.counts import counted

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
    """A line for each folder of whose sample records are rejected: how many, the share, and the reasons.

    The share is exact where all was read, and has its 95 % interval where only a part was.
    """
    for each in inputs:
        rejected = rejections(each.sample)
        total = each.sample.documents + rejected
        if rejected:
            whole = each.sample.complete
            what = "all {:,} pages" if whole else "{:,} sampled pages"
            share = f"{rejected / total:.1%}" if whole else str(Proportion.of(rejected, total))
            yield (
                f"{each.key}: {rejected:,} of {what.format(total)} and records would be rejected, {share}; "
                f"{'; '.join(_reasons(each.sample))}"
            )


def _reasons(sample: InputSample) -> Iterator[str]:
    """The reasons of rejections, the most frequent first, each with an example."""
    for each in sample.rejections[:SHOWN]:
        yield f"{each.records:,} as {each.reason}: {each.path}: {each.detail}"
    if (more := len(sample.rejections) - SHOWN) > 0:
        yield f"and for {counted(more, 'more reason')}"


def rejections(sample: InputSample) -> int:
    """The number of rejected records of a sample."""
    return sum(each.records for each in sample.rejections)
