"""One search for near-duplicates in a process of its own: `python -m benchmarks.near_run SCRATCH RESULT SHARD...`.

Promises: writes doc_id, cluster and jaccard to RESULT (Parquet), and prints as JSON the seconds on the core and on the
wall, from the first file opened to the last row written, and the most megabytes that were resident at once.
"""

import json
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.resident import peak_megabytes
from tutti.dedup.near import SCHEMA, near_duplicates
from tutti.dedup.shards import reader


def main() -> None:
    scratch, result, *shards = map(Path, sys.argv[1:])
    core, wall = time.process_time(), time.perf_counter()
    with pq.ParquetWriter(result, SCHEMA) as writer:  # type: ignore[no-untyped-call]
        for batch in near_duplicates(reader(shards), scratch):
            writer.write_batch(batch)
    print(
        json.dumps(
            {
                "core": time.process_time() - core,
                "wall": time.perf_counter() - wall,
                "megabytes": peak_megabytes(),
            }
        )
    )


if __name__ == "__main__":
    main()
