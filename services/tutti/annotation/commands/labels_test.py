"""Files of judgements that promise more than they have: they are read within limits, and refused by what is wrong."""

import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tutti.annotation.commands.labels import labels_in
from tutti.cli.failures import Failure

MIB = 1 << 20
MOST = 176 * MIB
"""A list of at most 50 MiB is held twice while it is read; a line has at most 3 MiB, a page 32 MiB."""
# Reads the files one by one; of each the memory at its peak, less that before, and what was said of it.
READ = r"""
import json, re, sys
from pathlib import Path
import pyarrow.parquet
from tutti.annotation.commands.labels import labels_in
from tutti.cli.failures import Failure

def memory(name):
    return int(re.search(name + r":\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10

for path in map(Path, sys.argv[1:]):
    Path("/proc/self/clear_refs").write_text("5")
    before, said = memory("VmRSS"), []
    try:
        said = labels_in(path, ["helpful"]).quoted
    except Failure as failure:
        said = [str(failure)]
    print(json.dumps([path.name, memory("VmHWM") - before, said[0]]), flush=True)
"""


def bomb(*pieces: bytes) -> bytes:
    stream = zlib.compressobj(6, wbits=31)
    return b"".join([*(stream.compress(piece) for piece in pieces), stream.flush()])


def hostile(folder: Path) -> Iterator[tuple[str, str]]:
    """Files, and the words that each is refused with."""
    zeros = b"0" * MIB
    for name, pieces, words in (
        ("line.jsonl.gz", [zeros] * 100, "line 1: a line of more than"),
        ("string.jsonl.gz", [b'{"prompt": "', *[zeros] * 100, b'"}'], "line 1: a line of more than"),
        ("list.json.gz", [b"[", *[zeros] * 100, b"]"], "a list of more than"),
        ("lines.jsonl.gz", [b'"' + 2 * zeros + b'"\n'] * 130, "unpacked"),
    ):
        (folder / name).write_bytes(bomb(*pieces))
        yield name, words
    table = pa.table({"prompt": [f"{n % 2}" * MIB for n in range(40)]})
    pq.write_table(table, folder / "page.parquet", compression="zstd", use_dictionary=False, data_page_size=64 * MIB)  # type: ignore[no-untyped-call]
    yield "page.parquet", "a page of"
    wide = pa.table({f"{n}{'c' * 400}": [1] for n in range(3000)})
    pq.write_table(wide, folder / "footer.parquet")  # type: ignore[no-untyped-call]
    yield "footer.parquet", "its footer"


def test_a_small_file_that_promises_much_takes_little_memory(tmp_path: Path) -> None:
    words = dict(hostile(tmp_path))
    assert max((tmp_path / name).stat().st_size for name in words) < 8 * MIB
    read = subprocess.run(
        [sys.executable, "-c", READ, *(str(tmp_path / name) for name in words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    for name, peak, said in map(json.loads, read.stdout.splitlines()):
        assert words.pop(name) in said, (name, said)
        assert peak <= MOST, f"{name}: {peak / MIB:.0f} MiB"
    assert not words, read.stderr


def test_a_file_of_which_the_rest_is_not_read_imports_nothing(tmp_path: Path) -> None:
    good = json.dumps({"prompt": "why?", "chosen": "so", "rejected": "no"}).encode() + b"\n"
    (tmp_path / "cut.jsonl.gz").write_bytes(bomb(good * 1000)[:-20])
    with pytest.raises(Failure, match="cannot be read"):
        labels_in(tmp_path / "cut.jsonl.gz", ["helpful"])
