"""The sanitizers see what a kernel must not do."""

import subprocess
import sys
from pathlib import Path

import pytest
from tools.sanitize import CannotSanitize, environment

CALL = """
import ctypes, sys
from pathlib import Path
from tutti.native.native import kernel

found = kernel(Path(sys.argv[1]))
data = bytes(range(200, 233))
print(found.library.planted(data, ctypes.c_long(len(data))), flush=True)
"""


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("int planted(const unsigned char *data, long size) { return data[size - 1]; }", ""),
        ("int planted(const unsigned char *data, long size) { return data[size + 1]; }", "heap-buffer-overflow"),
        ("int planted(const unsigned char *data) { return 2147483600 + data[0]; }", "signed integer overflow"),
    ],
    ids=["sound", "outside", "overflow"],
)
def test_a_planted_error_ends_the_process_by_name(tmp_path: Path, code: str, seen: str) -> None:
    try:
        surroundings = environment(tmp_path / "scratch")
    except CannotSanitize as missing:
        pytest.skip(str(missing))
    source = tmp_path / "planted.c"
    source.write_text(code)
    done = subprocess.run(
        [sys.executable, "-c", CALL, source], env=surroundings, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode == 0) == (not seen), done.stderr
    assert seen in done.stderr
