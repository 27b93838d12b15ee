"""Mutants of a Python file, written as JSON to standard output. Needs cosmic-ray, which is no part of the lock.

Promises: the same file gives the same mutants in the same order. For each operator of the language one or two
replacements are tried, not all: boundaries (`<` for `<=`), opposites (`-` for `+`, `and` for `or`, `not`), numbers one
off, loops that are skipped or not left, exceptions that are not caught. Annotations are left out, for they are not
executed, and so is whether a dataclass is frozen, which mypy checks.
"""

import ast
import difflib
import json
import re
import sys
from pathlib import Path

from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

BINARY = """
    Add_Sub Sub_Add Mul_FloorDiv Div_Mul FloorDiv_Mul Mod_FloorDiv RShift_LShift LShift_RShift BitOr_BitAnd BitAnd_BitOr
    BitXor_BitAnd
"""
COMPARISON = "Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
OTHERS = """
    AddNot ReplaceTrueWithFalse ReplaceFalseWithTrue ReplaceAndWithOr ReplaceOrWithAnd ReplaceBreakWithContinue
    ReplaceContinueWithBreak ExceptionReplacer NumberReplacer ZeroIterationForLoop ReplaceUnaryOperator_USub_UAdd
    ReplaceUnaryOperator_Delete_Not
"""
OPERATORS = (
    *(f"ReplaceBinaryOperator_{each}" for each in BINARY.split()),
    *(f"ReplaceComparisonOperator_{each}" for each in COMPARISON.split()),
    *OTHERS.split(),
)
DECLARATION = "@dataclass("


def executed(code: str) -> str:
    """The code as Python runs it: without annotations, so that changes of these alone can be left out."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def changed(code: str, mutated: str) -> tuple[int, str, str]:
    """The number of the first line that differs, and the lines that do, before and after."""
    old, new = code.splitlines(), mutated.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    start, end, first, last = next(each[1:] for each in matcher.get_opcodes() if each[0] != "equal")
    return start + 1, " ".join(map(str.strip, old[start:end])), " ".join(map(str.strip, new[first:last]))


def mutants(code: str) -> list[dict[str, object]]:
    """One mutant a change: its operator, line, the line before and after, and the whole code."""
    made, seen = [], {executed(code)}
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        occurrence = 0
        while (mutated := mutate_code(code, operator, occurrence)) is not None:
            occurrence += 1
            try:
                form = executed(mutated)
            except SyntaxError:  # an asterisk is not always a multiplication
                continue
            line, before, after = changed(code, mutated)
            if form in seen or before.startswith(DECLARATION):
                continue
            seen.add(form)
            made.append(
                {
                    "operator": re.sub("^Replace|Operator", "", name),
                    "line": line,
                    "before": before,
                    "after": after,
                    "code": mutated,
                }
            )
    return made


if __name__ == "__main__":
    json.dump(mutants(Path(sys.argv[1]).read_text()), sys.stdout)
