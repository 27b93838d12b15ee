"""Every setting is read: one that is accepted, shown as effective and then ignored would be a lie."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECTION_OF = {
    f"{statement.annotation.id}": statement.target.id
    for node in ast.parse((ROOT / "libs/tutti/chassis/config/settings.py").read_text()).body
    if isinstance(node, ast.ClassDef) and node.name == "Settings"
    for statement in node.body
    if isinstance(statement, ast.AnnAssign)
    and isinstance(statement.annotation, ast.Name)
    and isinstance(statement.target, ast.Name)
}


def sources() -> Iterator[str]:
    for folder in ("libs", "services"):
        for path in (ROOT / folder).rglob("*.py"):
            if "contracts" not in path.parts and not path.name.endswith("_test.py"):
                yield path.read_text()


def declared(text: str) -> Iterator[tuple[str, str]]:
    """Model and field of every setting that this source declares."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and any(
            getattr(base, "id", "") in ("Section", "BaseModel") for base in node.bases
        ):
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    yield node.name, statement.target.id


def read(text: str) -> Iterator[str]:
    """`owner.field` of every attribute that this source looks at."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = node.value
            yield f"{getattr(owner, 'attr', None) or getattr(owner, 'id', '')}.{node.attr}"


def unread(texts: list[str]) -> set[str]:
    """Settings that nobody looks at, neither by the name of their section nor where their model is known."""
    found = {setting for text in texts if "Settings(" in text for setting in declared(text)}
    for text in texts:
        known = {
            (model, field) for model, field in found if model in text or f"{SECTION_OF.get(model)}.{field}" in text
        }
        if not known:
            continue
        reads = set(read(text))
        fields = {each.rpartition(".")[2] for each in reads}
        found -= {
            (model, field)
            for model, field in known
            if f"{SECTION_OF.get(model)}.{field}" in reads or (model in text and field in fields)
        }
    return {f"{model}.{field}" for model, field in found}


def test_every_setting_has_a_reader() -> None:
    assert unread([text for text in sources() if "ettings" in text]) == set()


def test_a_setting_without_a_reader_is_found() -> None:
    text = "class OwnSettings(Section):\n    used: int = 1\n    idle: int = 2\n\nprint(OwnSettings().used)\n"
    assert unread([text]) == {"OwnSettings.idle"}
