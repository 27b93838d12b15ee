"""The modules that are mutated, each with the tests that must notice, the fastest first.

Promises: a test is named on its own where its module also tests other code.
"""

import ast
import hashlib
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests" / "house" / "mutants.json"

SAMPLER = "libs/tutti/corpus/tokens/sampler_test.py"
MANIFEST = "libs/tutti/records/manifest_test.py"

TARGETS: dict[str, tuple[str, ...]] = {
    "libs/tutti/chassis/delivery/inbox.py": (
        "libs/tutti/chassis/delivery/inbox_test.py",
        "tests/contract/postgres_test.py::test_what_was_handled_is_looked_up_by_key_while_there_are_no_statistics",
    ),
    "libs/tutti/chassis/store/taskrows.py": (
        "libs/tutti/chassis/tasks_test.py::test_a_lost_worker_is_replaced_and_cannot_finish",
        "libs/tutti/chassis/store/taskrows_test.py",
    ),
    "libs/tutti/corpus/tokens/ledger.py": (
        f"{SAMPLER}::test_impossible_spans_and_ledgers_are_refused",
        f"{SAMPLER}::test_a_ledger_finds_the_readings_of_every_span_and_marks_skipped_steps",
        f"{SAMPLER}::test_a_dataset_that_only_a_later_span_reads_is_found_there",
        f"{SAMPLER}::test_a_ledger_comes_back_from_its_canonical_form",
    ),
    "libs/tutti/records/manifest.py": (
        f"{MANIFEST}::test_a_dataset_comes_back_from_its_manifest",
        f"{MANIFEST}::test_identity_follows_content_and_parents_and_not_the_producer",
        f"{MANIFEST}::test_a_newer_major_names_the_way_to_read_it",
        f"{MANIFEST}::test_the_version_of_the_format_is_written",
        f"{MANIFEST}::test_fields_that_were_not_read_are_named_but_not_all_of_many",
        f"{MANIFEST}::test_a_manifest_that_does_not_hold_is_refused",
    ),
    "libs/tutti/corpus/tokens/permutation.py": (
        f"{SAMPLER}::test_the_permutation_is_pinned_because_checkpoints_depend_on_it",
        f"{SAMPLER}::test_a_permutation_is_a_bijection_and_its_inverse_undoes_it",
        f"{SAMPLER}::test_a_permutation_of_a_vast_range_is_undone_too",
    ),
    "libs/tutti/model/plan.py": ("libs/tutti/model/plan_test.py",),
    "libs/tutti/model/tree.py": ("libs/tutti/model/tree_test.py", "libs/tutti/model/plan_test.py"),
    "libs/tutti/model/vote.py": ("libs/tutti/model/vote_test.py",),
    "services/tutti/pipeline/runs/transitions.py": ("services/tutti/pipeline/runs/runsteps_test.py",),
    "services/tutti/scheduler/decisions.py": (
        "services/tutti/scheduler/decisions_test.py",
        "services/tutti/scheduler/rollouts_test.py",
        "services/tutti/scheduler/stalls_test.py",
    ),
    "services/tutti/scheduler/gangs.py": ("services/tutti/scheduler/gangs_test.py",),
    "services/tutti/scheduler/jobs.py": ("services/tutti/scheduler/steps_test.py",),
}


def code_digest(source: str) -> str:
    """The digest of the lines of a source, without comments, docstrings and empty lines.

    The same for every version of Python: tokens of f-strings and the dump of a syntax tree are not.
    """
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            assert node.end_lineno is not None
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    kept = [line.rstrip() for line in lines if line.strip()]
    return hashlib.blake2b("\n".join(kept).encode(), digest_size=16).hexdigest()
