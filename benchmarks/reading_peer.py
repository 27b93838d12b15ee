"""trafilatura's extraction of pages: run by benchmarks/reading.py in the Python of the peers.

Promises: prints as JSON the seconds on the core that it took to extract all pages that are named, the first of them
before that once more, so that what is loaded with the first is not counted; and the most megabytes that were resident.
"""

import json
import sys
import time
from pathlib import Path

import trafilatura

pages = [Path(name).read_bytes() for name in sys.argv[1:]]
trafilatura.extract(pages[0])
begun = time.process_time()
found = sum(trafilatura.extract(page) is not None for page in pages)
seconds = time.process_time() - begun
if not found:
    sys.exit("nothing was extracted: less was measured than meant")
status = Path("/proc/self/status").read_text().splitlines()
peak = int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1000
print(json.dumps({"core": seconds, "megabytes": peak}))
