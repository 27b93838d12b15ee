"""The protobuf baseline: what the protos of the last release were, for `buf breaking`.

Promises: written whole or not at all, from the protos as they are in this tree.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASELINE = ROOT / "protos" / "baseline.binpb"


def build(target: Path, *, root: Path = ROOT) -> None:
    """Write the image of `root`/protos to `target`; exits with buf's words when the protos are wrong."""
    made = target.with_suffix(".new.binpb")
    buf = Path(sys.executable).parent / "buf"
    result = subprocess.run(
        [buf, "build", "--exclude-source-info", "-o", str(made)], cwd=root, capture_output=True, text=True, check=False
    )
    if result.returncode:
        made.unlink(missing_ok=True)
        sys.exit(f"buf refused the protos:\n{result.stdout}{result.stderr}")
    made.replace(target)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the image that `make lint` compares the protos with.")
    parser.add_argument("--output", type=Path, default=BASELINE)
    target: Path = parser.parse_args().output
    build(target.resolve())
    print(f"wrote {target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
