"""The record of mutants is about the code as it is, and leaves none unexplained."""

import json

from tools.mutation.targets import RECORD, ROOT, TARGETS, code_digest


def test_every_module_that_decides_was_examined_as_it_is() -> None:
    record = json.loads(RECORD.read_text())
    assert record.keys() == TARGETS.keys()
    sources = {path: code_digest((ROOT / path).read_text()) for path in TARGETS}
    changed = sorted(path for path, digest in sources.items() if record[path]["source"] != digest)
    assert not changed, f'run make mutants MODULES="{" ".join(changed)}"'


def test_every_mutant_that_survives_has_a_reason() -> None:
    record = json.loads(RECORD.read_text())
    for path, row in record.items():
        assert row["killed"] + len(row["survivors"]) == row["mutants"] > 0
        assert [each for each in row["survivors"] if not each["why"]] == [], path


def test_the_digest_of_a_source_is_of_its_code_alone() -> None:
    digest = code_digest('def f(x: int) -> int:\n    """Add one."""\n    return x + 1\n')
    assert digest == code_digest("def f(x: int) -> int:\n    # One more.\n    return x + 1\n")
    assert digest != code_digest("def f(x: int) -> int:\n    return x + 2\n")
    assert digest != code_digest('def f(x: int) -> int:\n    return x + 1\n\n\nTEXT = "Add one."\n')
