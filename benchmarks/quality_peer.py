"""datatrove's Gopher filters over the texts of a file: run by benchmarks/quality.py in the Python of the peers.

Promises: prints, for every line read, the seconds on the core that filtering all of them took with thresholds that
reject nothing, as JSON lines.
"""

import json
import sys
import time
from pathlib import Path

from datatrove.data import Document
from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter

texts = json.loads(Path(sys.argv[1]).read_text())
NONE = sys.float_info.max
OPEN = (
    GopherQualityFilter(
        min_doc_words=0,
        max_doc_words=sys.maxsize,
        min_avg_word_length=0,
        max_avg_word_length=sys.maxsize,
        max_symbol_word_ratio=NONE,
        max_bullet_lines_ratio=NONE,
        max_ellipsis_lines_ratio=NONE,
        max_non_alpha_words_ratio=sys.float_info.min,
        min_stop_words=-1,
    ),
    GopherRepetitionFilter(
        dup_line_frac=NONE,
        dup_para_frac=NONE,
        dup_line_char_frac=NONE,
        dup_para_char_frac=NONE,
        top_n_grams=tuple((n, NONE) for n in (2, 3, 4)),
        dup_n_grams=tuple((n, NONE) for n in (5, 6, 7, 8, 9, 10)),
    ),
)


for _ in sys.stdin:
    begun = time.process_time()
    kept = all(each.filter(Document(text=text, id="")) is True for text in texts for each in OPEN)
    print(time.process_time() - begun, flush=True)
    if not kept:
        sys.exit("a text was rejected: less was measured than meant")
