"""rensa's MinHash signatures of the texts of a file: run by near_duplicates.py in the Python of the peers.

Promises: for every line read, prints the seconds on the core that 120 permutations of word 5-grams took; the words lie
between spaces, and the n-grams are made in Python, since rensa takes them as strings.
"""

import json
import sys
import time
from pathlib import Path

from rensa import RMinHash  # type: ignore[import-not-found]

texts = json.loads(Path(sys.argv[1]).read_text())
for _ in sys.stdin:
    begun = time.process_time()
    for text in texts:
        words = text.split(" ")
        signature = RMinHash(num_perm=120, seed=42)
        signature.update([" ".join(words[at : at + 5]) for at in range(len(words) - 4)])
        signature.digest()
    print(time.process_time() - begun, flush=True)
