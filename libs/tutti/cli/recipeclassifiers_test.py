"""Which classifiers a recipe of a run names by files."""

import pytest

from tutti.cli.recipeclassifiers import files_in

HARM = "quality: {classifiers: [harm.yaml, web]}\n"


@pytest.mark.parametrize(
    ("text", "overrides", "named"),
    [
        (HARM, (), ["harm.yaml", "web"]),
        (HARM, ("quality.classifiers=web",), []),
        (HARM, ("quality.classifiers=",), []),
        (HARM, ("train.steps=many", "quality.languages=en"), ["harm.yaml", "web"]),
        ("{}", ("quality.classifiers=../a.yml, web",), ["../a.yml", "web"]),
        ("{}", ('quality.classifiers=["a, b.json"]',), ["a, b.json"]),
        ("quality: {classifiers: [harm, web@blake3:00]}", (), []),
        ("input: {path: harm.yaml}", (), []),
    ],
)
def test_files_are_told_from_names_by_how_they_end(text: str, overrides: tuple[str, ...], named: list[str]) -> None:
    assert files_in(text, overrides) == named


@pytest.mark.parametrize(
    "text",
    ["", "[", "quality: harm.yaml", "quality: {classifiers: harm.yaml}", "quality: {classifiers: [harm.yaml, 1]}"],
)
def test_what_is_wrong_with_a_text_is_for_the_pipeline_to_say(text: str) -> None:
    assert files_in(text, ()) == []
    assert files_in("quality: 3", ("quality.classifiers=harm.yaml",)) == []
