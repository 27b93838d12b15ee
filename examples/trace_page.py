"""Trace a page to the steps that saw it, and to the checkpoints that descend from it.

python examples/trace_page.py PATH_OF_THE_PAGE_IN_ITS_FOLDER [DATA_DIR]
"""

import sys
from pathlib import Path

from tutti.chassis.client import Problem, connect
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
    if len(sys.argv) < 2:
        sys.exit(f"{sys.argv[0]}: expected the path of a page in its folder, such as array.html")
    try:
        main(sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else ".tutti"))
    except Problem as problem:
        sys.exit(f"{problem.reason}: {problem.message}")
