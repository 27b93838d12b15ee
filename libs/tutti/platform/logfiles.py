"""Log files: what a process wrote, and what it wrote before that.

Promises: a log never has much more than twice the size at which it is rotated, however long its writer lives; a writer
that appends need not know. What is written while the file is emptied may be lost.
"""

import os
import shutil
from pathlib import Path

LOG_BYTES = 16 << 20


def rotate(path: Path, most: int = LOG_BYTES) -> bool:
    """Move what a log holds to `<name>.1` once it has more than `most` bytes; whether it was emptied."""
    try:
        if path.stat().st_size <= most:
            return False
    except FileNotFoundError:
        return False
    copy = path.with_name(f".{path.name}.copy")
    shutil.copyfile(path, copy)
    copy.replace(path.with_name(f"{path.name}.1"))  # who reads it sees the old one or the new one, never a part
    os.truncate(path, 0)  # not renamed: its writer has it open, and appends to this very file
    return True
