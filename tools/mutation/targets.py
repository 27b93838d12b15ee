"""The modules that are mutated, each with the tests that must notice, the fastest first.

Promises: a test is named on its own where its module also tests other code.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests" / "house" / "mutants.json"

TARGETS: dict[str, tuple[str, ...]] = {
    "libs/tutti/model/tree.py": ("libs/tutti/model/tree_test.py", "libs/tutti/model/plan_test.py"),
    "libs/tutti/model/vote.py": ("libs/tutti/model/vote_test.py",),
}
