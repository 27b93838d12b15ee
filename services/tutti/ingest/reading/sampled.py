"""A sample of a folder: what its first records become, before anything is recorded.

Promises: a record is read, extracted and rejected exactly as an ingest does it; at most `most` of them are held.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tutti.ingest.reading import shards
from tutti.ingest.reading.batches import make
from tutti.ingest.reading.containers import Record
from tutti.ingest.reading.rejections import Reason, Rejection

OF_A_FILE = 100
"""Records of one file, at most, so that more than one file of many records is sampled."""


@dataclass(frozen=True, slots=True)
class Sample:
    """`rejections`: by reason, how many and the first of them, the most frequent reason first.

    `complete` where the folder has no other records.
    """

    documents: int
    rejections: tuple[tuple[int, Rejection], ...]
    complete: bool


def sample(reading: shards.Reading, most: int) -> Sample:
    """Read the first records, at most `most` and OF_A_FILE of each file. Raises InputRootError."""
    complete = True

    def records() -> Iterator[tuple[str, Record]]:
        nonlocal complete
        for file in shards.files(reading):
            of_file = shards.records(file, reading)
            for record in itertools.islice(of_file, OF_A_FILE):
                yield file.path, record
            complete = complete and next(of_file, None) is None

    every = records()
    batch = list(itertools.islice(every, most))
    complete = next(every, None) is None and complete
    documents, counts, first = 0, Counter[Reason](), dict[Reason, Rejection]()
    for _, item in make(batch, reading.mask).items:
        if isinstance(item, Rejection):
            counts[item.reason] += 1
            first.setdefault(item.reason, item)
        else:
            documents += 1
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return Sample(documents, tuple((count, first[reason]) for reason, count in ordered), complete)


def surveyed(reading: shards.Reading, files: int, most: int) -> tuple[shards.Survey, Sample | None]:
    """Name the content of the first `files` (0: all) and, unless `most` is 0, sample the folder.

    Raises InputRootError.
    """
    first = replace(reading, limit=files) if files else reading
    return shards.survey(first), sample(reading, most) if most else None
