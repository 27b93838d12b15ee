"""What datatrove's Gopher filters decide, each threshold alone: run by benchmarks/verdicts.py with the peers' Python.

Promises: prints one JSON object: under "all" which texts both filters keep as they are published, and under the names
of our rules which ones they keep with that threshold and no other.
"""

import json
import sys
from pathlib import Path
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter

NONE = sys.float_info.max
# Each parameter: our rules, its published value, and one that rejects nothing.
QUALITY = {
    "min_doc_words": ("gopher_least_words", 50, 0),
    "max_doc_words": ("gopher_most_words", 100_000, sys.maxsize),
    "min_avg_word_length": ("gopher_least_word_length", 3, 0),
    "max_avg_word_length": ("gopher_most_word_length", 10, sys.maxsize),
    "max_symbol_word_ratio": ("gopher_hashes gopher_ellipses", 0.1, NONE),
    "max_bullet_lines_ratio": ("gopher_bullet_lines", 0.9, NONE),
    "max_ellipsis_lines_ratio": ("gopher_ellipsis_lines", 0.3, NONE),
    "max_non_alpha_words_ratio": ("gopher_alphabetic_words", 0.8, sys.float_info.min),
    "min_stop_words": ("gopher_stop_words", 2, -1),
}
REPETITION = {
    "dup_line_frac": ("gopher_duplicate_lines", 0.3, NONE),
    "dup_para_frac": ("gopher_duplicate_paragraphs", 0.3, NONE),
    "dup_line_char_frac": ("gopher_duplicate_line_characters", 0.2, NONE),
    "dup_para_char_frac": ("gopher_duplicate_paragraph_characters", 0.2, NONE),
}
TOP = {2: 0.2, 3: 0.18, 4: 0.16}
DUPLICATE = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.1}

texts = [Document(text=text, id="") for text in json.loads(Path(sys.argv[1]).read_text())]
published = (GopherQualityFilter(), GopherRepetitionFilter())
found = {"all": [all(each.filter(text) is True for each in published) for text in texts]}


def alone(rules: str, made: Any) -> None:
    """What is kept by a filter that has one threshold."""
    found[rules] = [made.filter(text) is True for text in texts]


for name, (rules, value, _) in QUALITY.items():
    alone(rules, GopherQualityFilter(**({key: open for key, (_, _, open) in QUALITY.items()} | {name: value})))
nothing = {key: open for key, (_, _, open) in REPETITION.items()}
for name, (rules, value, _) in REPETITION.items():
    alone(rules, GopherRepetitionFilter(**(nothing | {name: value}), top_n_grams=(), dup_n_grams=()))
for n, value in TOP.items():
    alone(f"gopher_top_{n}_grams", GopherRepetitionFilter(**nothing, top_n_grams=((n, value),), dup_n_grams=()))
for n, value in DUPLICATE.items():
    alone(f"gopher_duplicate_{n}_grams", GopherRepetitionFilter(**nothing, top_n_grams=(), dup_n_grams=((n, value),)))
print(json.dumps(found))
