"""What the rules of Gopher decide here, beside what datatrove's filters decide of the same texts.

The texts are the chapters of the language reference that Python carries (pydoc_data), of which most are rejected, and
the English texts of the carried sets of harm, eight of a file to a document, of which most are kept: who rejected all,
or kept all, would agree with nobody.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from pydoc_data.topics import topics

import pyarrow as pa

from benchmarks.peers import HOW, PYTHON
from benchmarks.program import ROOT, WentWrong, scratch
from benchmarks.table import Row
from tutti.corpus.counts.statistics import statistics
from tutti.ingest.quality.rules import GOPHER_QUALITY, GOPHER_REPETITION, Rule, decide

GOPHER = {rule.name: rule for rule in (*GOPHER_QUALITY, *GOPHER_REPETITION)}
TOGETHER = 8  # texts of a file that are one document: some 250 words


def texts() -> list[str]:
    """Chapters and prose."""
    return [text for _, text in sorted(topics.items())] + prose()


def prose() -> list[str]:
    files = sorted(path for name in ("harm", "harm_unseen") for path in (ROOT / "datasets" / name).glob("*/*en.jsonl"))
    every = [[json.loads(line)["text"] for line in path.read_text().splitlines()] for path in files]
    return [
        "\n\n".join(lines[begin : begin + TOGETHER])
        for lines in every
        for begin in range(0, len(lines) - TOGETHER + 1, TOGETHER)
    ]


def verdicts(every: Sequence[str]) -> list[Row]:
    """How many texts are decided alike, and of each rule alone where it is not so."""
    what = "Gopher's rules, texts decided as datatrove decides them"
    if not PYTHON.exists():
        return [Row(what, note=HOW)]
    with scratch("verdicts") as folder:
        path = Path(folder) / "texts.json"
        path.write_text(json.dumps(list(every)))
        command = [str(PYTHON), str(Path(__file__).with_name("verdicts_peer.py")), str(path)]
        theirs: dict[str, list[bool]] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    counts = statistics(pa.array(every))

    def beside(rules: Sequence[Rule], kept: Sequence[bool]) -> Counter[tuple[bool, bool]]:
        return Counter(zip(decide(counts, rules).column("rule").is_null().to_pylist(), kept, strict=True))

    whole = beside(list(GOPHER.values()), theirs.pop("all"))
    asked = [name for names in theirs for name in names.split()]
    if sorted(asked) != sorted(GOPHER):
        raise WentWrong(f"compared {asked}; expected each of {list(GOPHER)}")
    alone = {names: beside([GOPHER[name] for name in names.split()], kept) for names, kept in theirs.items()}
    apart = [f"{names} {_words(found)}" for names, found in alone.items() if found[True, False] + found[False, True]]
    note = f"{_words(whole)}; each rule alone, where they differ: {'; '.join(apart) or 'nowhere'}"
    return [Row(what, unit=f"of {whole.total()}", ours=whole[True, True] + whole[False, False], note=note)]


def _words(found: Counter[tuple[bool, bool]]) -> str:
    return (
        f"both keep {found[True, True]}, both reject {found[False, False]}, "
        f"only ours keeps {found[True, False]}, only theirs {found[False, True]}"
    )
