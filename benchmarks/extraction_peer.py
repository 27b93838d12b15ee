"""Main content by a peer: run by benchmarks/extraction.py in the Python of the peers, with paths on the standard input.

Promises: prints as JSON the text of each page, empty where the peer fails, and the seconds on the core; the first page
is read once before that, so that what is loaded with it is not counted.
"""

import json
import logging
import sys
import time
from pathlib import Path

import trafilatura
from lxml.html import fromstring
from readability import Document
from trafilatura.utils import decode_file

logging.disable(logging.CRITICAL)


def extracted(name: str, page: str) -> str:
    try:
        if name == "readability":
            return str(fromstring(Document(page).summary()).text_content())
        fast = name == "trafilatura-fast"
        return trafilatura.extract(page, fast=fast, include_comments=False, include_tables=True) or ""
    except Exception:
        return ""


pages = [decode_file(Path(name).read_bytes()) for name in sys.stdin.read().split("\n")]
extracted(sys.argv[1], pages[0])
begun = time.process_time()
texts = [extracted(sys.argv[1], page) for page in pages]
print(json.dumps({"core": time.process_time() - begun, "texts": texts}))
