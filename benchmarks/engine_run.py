"""Searches for duplicates by one engine: `python -m benchmarks.engine_run ENGINE FOLDER NEAR SHARD...`.

ENGINE is `here` (embedded), `daft` (the plan, in this process) or the address of a Ray cluster. FOLDER holds the blobs
and has room. Promises: for every line read, one search; prints as JSON its seconds on the wall and on this process's
core, the digest of its file, and the most megabytes that were resident here.
"""

import json
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.resident import peak_megabytes
from tutti.dedup import clusters, onray
from tutti.dedup.engine import Engine, join
from tutti.dedup.reading import Placed
from tutti.dedup.shards import Texts
from tutti.records.canonical import file_digest


def main() -> None:
    engine, folder, near, *shards = sys.argv[1:]
    files = [Path(folder, "blobs", shard) for shard in shards]
    if engine not in ("here", "daft"):
        join(engine)
    own = Placed(tuple((shard, file_digest(path)) for shard, path in zip(shards, files, strict=True)))
    for _ in sys.stdin:
        scratch = Path(mkdtemp(dir=folder))
        wall, core = time.perf_counter(), time.process_time()
        if engine == "here":
            found = clusters.find(Texts(tuple(files)), float(near), scratch)
        else:
            found, _ = onray.search(Engine(buckets=4), f"file://{folder}/blobs", own, float(near), scratch)
        done = {
            "wall": time.perf_counter() - wall,
            "core": time.process_time() - core,
            "digest": file_digest(found.path),
            "megabytes": peak_megabytes(),
        }
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
