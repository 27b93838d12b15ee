"""Hand-written source lines by package, without tests, migrations and generated code, at two commits.

python -m tools.lines --since 0.1.0
"""

import argparse
import subprocess
from collections import Counter
from pathlib import PurePosixPath

SUFFIXES = {".py", ".c", ".h", ".js", ".css", ".html"}
NOT_COUNTED = {"contracts", "migrations", "testing", "vendor"}


def counted(path: PurePosixPath) -> bool:
    """Return true for a file that is written by hand and is not a test."""
    return (
        path.suffix in SUFFIXES
        and path.parts[0] in ("libs", "services")
        and not NOT_COUNTED & set(path.parts)
        and not path.stem.endswith("_test")
        and path.name != "conftest.py"
    )


def package(path: PurePosixPath) -> str:
    """Return the package of a file: chassis for `libs/tutti/chassis/rpc/server.py`."""
    return path.parts[2] if len(path.parts) > 3 else path.parts[1]


def lines_at(commit: str) -> Counter[str]:
    """Lines by package. Raises CalledProcessError for a commit that is none."""
    command = ["git", "grep", "--count", "", commit, "--", "libs", "services"]
    found: Counter[str] = Counter()
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        name, _, count = line.removeprefix(f"{commit}:").rpartition(":")
        path = PurePosixPath(name)
        if counted(path):
            found[package(path)] += int(count)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", required=True, metavar="COMMIT", help="the commit to compare with")
    parser.add_argument("--at", default="HEAD", metavar="COMMIT", help="default: HEAD")
    given = parser.parse_args()
    before, after = lines_at(given.since), lines_at(given.at)
    for name in sorted(before | after):
        print(f"{name:14} {before[name]:7,} {after[name]:7,} {after[name] - before[name]:+7,}")
    print(f"{'in all':14} {before.total():7,} {after.total():7,} {after.total() - before.total():+7,}")


if __name__ == "__main__":
    main()
