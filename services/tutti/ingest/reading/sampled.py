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
from tutti.ingest.reading.rejections import Dropped, DroppedFiles, Reason, Rejection

OF_A_FILE, FILES, MANY = 100, 5, 25
"""Records of one file, at most, and files of many records at least in a sample of over MANY."""


@dataclass(frozen=True, slots=True)
class Sample:
    """`rejections`: by reason, how many and the first of them, the most frequent reason first.

    `complete` where the folder has no other records. `dropped`: the files of which no record that was read has a text.
    """

    documents: int
    rejections: tuple[tuple[int, Rejection], ...]
    complete: bool
    dropped: tuple[Dropped, ...] = ()


def sample(reading: shards.Reading, most: int) -> Sample:
    """Read the first records, at most `most`, and OF_A_FILE or `most` / FILES of each file. Raises InputRootError."""
    complete = True
    of_a_file = min(OF_A_FILE, most // FILES) if most > MANY else OF_A_FILE

    def records() -> Iterator[tuple[str, Record]]:
        nonlocal complete
        for file in shards.files(reading):
            of_file = shards.records(file, reading)
            for record in itertools.islice(of_file, of_a_file):
                yield file.path, record
            complete = complete and next(of_file, None) is None

    every = records()
    batch = list(itertools.islice(every, most))
    complete = next(every, None) is None and complete
    documents, counts, first, dropped = 0, Counter[Reason](), dict[Reason, Rejection](), DroppedFiles()
    for path, item in make(batch, reading.mask).items:
        dropped.see(path, item if isinstance(item, Rejection) else None)
        if isinstance(item, Rejection):
            counts[item.reason] += 1
            first.setdefault(item.reason, item)
        else:
            documents += 1
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    rejected = tuple((count, first[reason]) for reason, count in ordered)
    return Sample(documents, rejected, complete, tuple(dropped.files()))


def surveyed(reading: shards.Reading, files: int, most: int) -> tuple[shards.Survey, Sample | None]:
    """Name the content of the first `files` (0: all) and, unless `most` is 0, sample the folder.

    Raises InputRootError.
    """
    first = replace(reading, limit=files) if files else reading
    return shards.survey(first), sample(reading, most) if most else None
