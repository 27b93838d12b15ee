"""A sample of a folder: what its first records become, before anything is recorded.

Promises: a record is read, extracted and rejected exactly as an ingest does it; at most `most` of them are held.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tutti.ingest.reading import shards
from tutti.ingest.reading.batches import make
from tutti.ingest.reading.containers import Record
from tutti.ingest.reading.readers import Container
from tutti.ingest.reading.rejections import Dropped, DroppedFiles, Reason, Rejection, has_no_text

OF_A_FILE, FILES, MANY = 100, 5, 25
"""Records of one file, at most, and files of many records at least in a sample of over MANY."""
OF_EACH, MOST_FILES, MOST_LISTED = 2, 200, 10_000
"""Records of each further file of records, for how many such files, and how many files of a folder are listed."""


@dataclass(frozen=True, slots=True)
class Sample:
    """`rejections`: by reason, how many and the first of them, the most frequent reason first.

    `complete` where the folder has no other records. `dropped`: the files of which no record that was read has a text.
    `unread`: the files of which nothing was read; of more than MOST_LISTED, one stands for the others.
    """

    documents: int
    rejections: tuple[tuple[int, Rejection], ...]
    complete: bool
    dropped: tuple[Dropped, ...] = ()
    unread: int = 0


def sample(reading: shards.Reading, most: int) -> Sample:
    """Read the first records, at most `most`, and OF_A_FILE or `most` / FILES of each file; then OF_EACH of each of the
    next MOST_FILES files of records, which many pages would hide. A file whose records have no text is read on to
    OF_A_FILE; those records decide whether it is dropped, and are not part of the sample. Raises InputRootError.
    """
    of_a_file = min(OF_A_FILE, most // FILES) if most > MANY else OF_A_FILE
    batch, ahead = list[tuple[str, Record]](), list[tuple[str, Rejection | None]]()
    complete, unread, further = True, 0, MOST_FILES
    for listed, file in enumerate(shards.files(reading)):
        room = min(of_a_file, most - len(batch))
        if room < OF_EACH and isinstance(file, Container) and further:
            room, further = OF_EACH, further - 1
        if listed == MOST_LISTED or room <= 0:
            complete, unread = False, unread + 1
            if listed == MOST_LISTED:
                break
            continue
        of_file = shards.records(file, reading)
        first_records = list(itertools.islice(of_file, room))
        batch += [(file.path, record) for record in first_records]
        more = next(of_file, None)
        complete = complete and more is None
        if all(map(has_no_text, first_records)):
            of_file = itertools.islice(of_file, max(0, OF_A_FILE - room - 1))
            ahead += [(file.path, rejection) for rejection in _up_to_a_text(more, of_file)]
    documents, counts, first, dropped = 0, Counter[Reason](), dict[Reason, Rejection](), DroppedFiles()
    for path, item in make(batch, reading.mask).items:
        dropped.see(path, item if isinstance(item, Rejection) else None)
        if isinstance(item, Rejection):
            counts[item.reason] += 1
            first.setdefault(item.reason, item)
        else:
            documents += 1
    for path, rejection in ahead:
        dropped.see(path, rejection)
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    rejected = tuple((count, first[reason]) for reason, count in ordered)
    return Sample(documents, rejected, complete, tuple(dropped.files()), unread)


def _up_to_a_text(first: Record | None, more: Iterable[Record]) -> Iterator[Rejection | None]:
    """The rejections of the next records of a file, up to the first record that has a text: None."""
    for record in () if first is None else itertools.chain([first], more):
        yield record if isinstance(record, Rejection) else None
        if not has_no_text(record):
            return


def surveyed(reading: shards.Reading, files: int, most: int) -> tuple[shards.Survey, Sample | None]:
    """Name the content of the first `files` (0: all) and, unless `most` is 0, sample the folder.

    Raises InputRootError.
    """
    first = replace(reading, limit=files) if files else reading
    return shards.survey(first), sample(reading, most) if most else None
