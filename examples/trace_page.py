"""Trace a page to the steps that read it, and to the checkpoints that descend from them.

python examples/trace_page.py PAGE [--data-dir DATA_DIR]
"""

import argparse
import sys
from pathlib import Path

from tutti.client import Problem, connect
from tutti.contracts.lineage.v1 import TraceDocumentRequest


def main(page: str, data_dir: Path) -> None:
    with connect(data_dir) as client:
        answer = client.lineage.TraceDocument(TraceDocumentRequest(document=page))
        for seen in answer.sightings:
            place = f"{seen.job} line {seen.line} step {seen.step} leaf {seen.leaf} row {seen.row}"
            print(f"{place}  saw sample {seen.sample}, {seen.document}")
        for checkpoint in answer.checkpoints:
            print(f"{checkpoint} descends from it")
        if answer.fate:
            print(answer.fate)
        if answer.truncated:
            print("there is more: raise `limit` of the request")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trace a page to the steps that read it.")
    parser.add_argument("page", help="its URL, its path in its folder, or a unique part of either, such as array.html")
    parser.add_argument("--data-dir", type=Path, default=Path(".tutti"))
    given = parser.parse_args()
    try:
        main(given.page, given.data_dir)
    except Problem as problem:
        sys.exit(f"{problem.reason}: {problem.message}")
