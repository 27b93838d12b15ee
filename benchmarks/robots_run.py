"""Parse a robots.txt in a process of its own, of our Python or that of the peers: `robots_run.py tutti|protego FILE`.

Prints the CPU-seconds that it took, and the peak of resident megabytes.
"""

import resource
import sys
import time
from pathlib import Path

if sys.argv[1] == "tutti":
    from tutti.ingest.crawl.robots import parse
else:
    from protego import Protego  # type: ignore[import-not-found]

text = Path(sys.argv[2]).read_text()
begun = time.process_time()
if sys.argv[1] == "tutti":
    parse(text, "tutti")
else:
    Protego.parse(text)
seconds = time.process_time() - begun
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
