"""Documents are chosen by rules: counted in the summary, named by a trace, chosen anew without reading a text."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.e2e.command import tiny, tutti

PROSE = "The people of the town have to be happy with the river that flows through it, and with page {}. "
FEW = "quality.thresholds.gopher_least_words"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve lines of prose in a file of records, two of them nearly the same; two short texts, one in another file."""
    folder = tmp_path_factory.mktemp("pages")
    lines = [" ".join(f"{PROSE.format(number)}{word * 3}" for word in "abcdefgh") for number in range(12)]
    lines[11] = lines[10].replace("page 10", "page ten", 1)
    records = [f'{{"text": "{line}", "url": "https://a.example/{number}"}}' for number, line in enumerate(lines)]
    (folder / "records.jsonl").write_text("\n".join([*records, '{"text": "Few words are here."}', "rubbish"]))
    (folder / "short.txt").write_text("Few words of a page.")
    return folder


@pytest.fixture(scope="module")
def first(data_dir: Path, pages: Path) -> Any:
    result = tutti(*tiny(data_dir, pages, "train.steps=2", "quality.rules=gopher_quality", "dedup.near=0"))
    assert result.code == 0, result.err
    return result.json()


def test_what_rules_reject_is_counted_and_the_rest_is_trained_on(first: Any) -> None:
    assert (first["ingest"]["files"], first["ingest"]["documents"], first["ingest"]["rejected"]) == (2, 14, 1)
    assert (first["filter"]["documents"], first["filter"]["rejected"]) == (12, 2)
    assert first["filter"]["rules"] == [{"rule": "gopher_least_words", "documents": 2}]
    assert (first["dedup"]["documents"], first["dedup"]["duplicates"]) == (12, 0)


def test_a_trace_says_which_rule_rejected_a_page_and_which_steps_saw_a_record(first: Any, data_dir: Path) -> None:
    short = tutti("trace", "short.txt", "--down", "--data-dir", data_dir)
    assert "rejected by the rule gopher_least_words, value 5, threshold 50" in short.err
    seen = tutti("trace", "https://a.example/3", "--down", "--data-dir", data_dir)
    assert seen.code == 0, seen.err
    rubbish = tutti("trace", "records.jsonl:14", "--down", "--data-dir", data_dir)
    assert "rejected: malformed" in rubbish.err


def test_documents_are_found_by_what_became_of_them_and_shown_with_their_text(first: Any, data_dir: Path) -> None:

    def documents(*arguments: str) -> Any:
        result = tutti("documents", *arguments, "-o", "json", "--data-dir", data_dir)
        assert result.code == 0, result.err
        return result.json()

    rejected = documents("rejected")
    assert [(each["source"], each["what"]) for each in rejected] == [
        ("records.jsonl:13", "rejected/gopher_least_words"),
        ("records.jsonl:14", "rejected/malformed"),
        ("short.txt", "rejected/gopher_least_words"),
    ]
    assert rejected[0]["detail"] == "value 4, threshold 50"
    assert len(documents("rejected", "--rule", "malformed")) == 1
    assert len(documents("find", "--url", "a.example", "--what", "kept", "--run", first["run"]["name"])) == 12
    assert len(documents("find", "--limit", "5")) == 5
    shown = documents("show", "https://a.example/3")
    assert shown["text"].startswith("The people of the town")
    assert (shown["characters"], shown["fate"]) == (len(shown["text"]), "")
    short = tutti("documents", "show", "short.txt", "--data-dir", data_dir)
    assert "Few words of a page." in short.out
    assert "rejected by the rule gopher_least_words" in short.out
    malformed = tutti("documents", "show", "records.jsonl:14", "--data-dir", data_dir)
    assert (malformed.code, malformed.out.splitlines()[1].split()[:3]) == (0, ["fate", "rejected:", "malformed,"])
    assert documents("show", "example/3") == documents("show", shown["name"][:22]) == shown
    nobody = tutti("documents", "show", "nobody.html", "--data-dir", data_dir)
    assert (nobody.code, "Traceback" in nobody.err) == (1, False)


def test_a_page_that_is_retracted_is_shown_as_such_and_asked_for_again_since_when(first: Any, data_dir: Path) -> None:
    def said(*arguments: str) -> str:
        result = tutti("documents", *arguments, "--data-dir", data_dir)
        assert result.code == 0, result.err
        return result.out

    page, other = "https://a.example/3", "https://a.example/4"
    assert said("retract", page).startswith(f"{page} is left out from now on: retractions/")
    (made,) = json.loads(said("retractions", "ls", "-o", "json"))
    since = made["retracted_at"][:19]
    assert said("retract", page).startswith(f"{page} is left out since {since}Z already: {made['name']}\n")
    assert re.search(rf"^fate +retracted, so every run since {since}Z leaves it out$", said("show", page), re.MULTILINE)
    assert "fate" not in said("show", other)
    said("retractions", "withdraw", made["name"])
    assert "fate" not in said("show", page)


def test_what_cannot_be_retracted_is_refused_with_the_reason(first: Any, data_dir: Path) -> None:
    def refused(page: str) -> str:
        result = tutti("documents", "retract", page, "--data-dir", data_dir)
        assert (result.code, result.out) == (1, "")
        return result.err.removeprefix("tutti: ")

    rejected = "records.jsonl:14 is in no dataset, there is nothing to retract: rejected: malformed, "
    assert refused("records.jsonl:14").startswith(rejected)
    named = "(a record goes by its `url`, or by FILE:LINE where it has none)"
    of_file, of_line = refused("records.jsonl"), refused("records.jsonl:3")
    assert "documents named by their place in it: 1, such as records.jsonl:13; expected a URL" in of_file
    assert "named by their place" not in of_line
    assert all(named in said for said in (of_file, of_line))


def test_a_table_of_documents_is_short_and_says_what_it_leaves_out(first: Any, data_dir: Path) -> None:
    table = tutti("documents", "find", "--limit", "2", "--url", "a.example", "--data-dir", data_dir)
    assert table.err == "10 more; `--limit 12` shows all\n"
    assert [len(each) for each in re.findall(r"documents/([0-9a-f]+)", table.out)] == [12, 12]
    wrong = tutti("documents", "rejected", "--rule", "gopher", "--data-dir", data_dir)
    there = "rejected/gopher_least_words (2), rejected/malformed (1)"
    assert wrong.err == f"no page of {first['run']['name']} is rejected/gopher; there are {there}\n"
    missing = tutti("documents", "find", "nobody", "--data-dir", data_dir)
    assert missing.err == f"no page of {first['run']['name']} has 'nobody' in its URL or path\n"


def test_with_another_threshold_no_text_is_read_again(first: Any, data_dir: Path, pages: Path) -> None:
    chosen = ("quality.rules=gopher_quality", "dedup.near=0", f"{FEW}=5", "quality.thresholds.gopher_stop_words=0")
    again = tutti(*tiny(data_dir, pages, "train.steps=2", *chosen))
    assert again.code == 0, again.err
    summary = again.json()
    reused = {each["name"]: each["reused"] for each in summary["run"]["stages"]}
    assert (reused["ingest"], reused["filter"], reused["dedup"]) == (True, False, False)
    assert summary["filter"]["rules"] == [{"rule": "gopher_least_words", "documents": 1}]


def test_near_duplicates_are_dropped_and_named(first: Any, data_dir: Path, pages: Path) -> None:
    near = tutti(*tiny(data_dir, pages, "train.steps=2", "quality.rules=gopher_quality", "dedup.near=0.8"))
    dedup = near.json()["dedup"]
    assert (dedup["documents"], dedup["duplicates"], dedup["near_duplicates"]) == (11, 1, 1)
    (dropped,) = tutti("documents", "duplicates", "-o", "json", "--data-dir", data_dir).json()
    assert dropped["what"] == "duplicate/near"
    assert sorted([dropped["source"], dropped["stays"]]) == ["https://a.example/10", "https://a.example/11"]
    assert "of documents/" in dropped["detail"]


def test_evaluation_texts_and_an_earlier_dataset_are_kept_out_and_named(
    first: Any, data_dir: Path, tmp_path: Path
) -> None:
    asked, later = tmp_path / "asked", tmp_path / "later"
    asked.mkdir()
    later.mkdir()
    question = "Which river did the first ferry of the valley cross before the old bridge was built there"
    (asked / "quiz.jsonl").write_text(f'{{"question": "{question}?"}}\n')
    texts = [" ".join(f"{PROSE.format(number)}{word * 3}" for word in "abcdefgh") for number in (3, 4, 30, 31, 32)]
    texts[1] = texts[1].replace("page 4", "page four", 1)
    texts[2] = f"{texts[2]} {question.upper()}"
    for number, text in enumerate(texts):
        (later / f"{number}.txt").write_text(text)
    chosen = ("dedup.near=0.8", f"dedup.decontaminate.path={asked}", "dedup.decontaminate.text_field=question")
    made = tutti(*tiny(data_dir, later, "train.steps=2", f"dedup.against={first['dataset']['name']}", *chosen))
    assert made.code == 0, made.err
    dedup = made.json()["dedup"]
    assert (dedup["documents"], dedup["duplicates"], dedup["earlier"], dedup["contaminated"]) == (2, 2, 2, 1)
    assert str(asked) not in made.out
    listed = tutti("documents", "find", "-o", "json", "--data-dir", data_dir).json()
    found = {each["source"]: (each["what"], each["detail"]) for each in listed}
    assert [found[f"{number}.txt"][0] for number in range(5)] == [
        "duplicate/earlier",
        "duplicate/earlier-near",
        "rejected/contaminated",
        "kept",
        "kept",
    ]
    earlier = tutti("documents", "find", "--what", "duplicate/earlier", "-o", "json", "--data-dir", data_dir).json()
    assert [each["source"] for each in earlier] == ["0.txt", "1.txt"]
    assert "100% of the n-grams of the evaluation text documents/" in found["2.txt"][1]
    evaluation = found["2.txt"][1].split()[-1]
    shown = tutti("documents", "show", evaluation, "--data-dir", data_dir)
    assert question in shown.out
    assert "an evaluation text; it stays in use until it is taken out of the folder" in shown.out
    retracted = tutti("documents", "retract", evaluation, "--dry-run", "-o", "json", "--data-dir", data_dir).json()
    assert (retracted["evaluated"], retracted["runs"], retracted["plan"]) == ([made.json()["run"]["name"]], [], [])
    traced = tutti("trace", "2.txt", "--down", "--data-dir", data_dir)
    assert "left out: it holds 100% of the n-grams" in traced.err


def test_lines_that_c4_removes_are_not_trained_on(first: Any, data_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cleaned"
    folder.mkdir()
    said = {}
    for number in range(6):
        prose = [PROSE.format(page).strip() for page in (number, number + 50)]
        lines = ["Home | About us", "", prose[0], "Few words here.", prose[1], "Please enable JavaScript to read this."]
        (folder / f"{number}.txt").write_text("\n".join([*lines, "", "Read our privacy policy before you go."]))
        said[f"{number}.txt"] = "\n".join(prose)
    (folder / "bare.txt").write_text("Home | About us\nPlease enable JavaScript to read all of this page.")
    made = tutti(*tiny(data_dir, folder, "train.steps=2", "dedup.near=0", "quality.clean=c4"))
    assert made.code == 0, made.err
    dedup = made.json()["dedup"]
    assert (dedup["documents"], dedup["cut_documents"], dedup["cleaned_lines"], dedup["short"]) == (6, 6, 24, 1)
    (rejected,) = tutti("documents", "rejected", "-o", "json", "--data-dir", data_dir).json()
    assert (rejected["source"], rejected["what"]) == ("bare.txt", "rejected/cleaned_lines")
    kept = tutti("documents", "find", "--what", "kept", "-o", "json", "--data-dir", data_dir).json()
    assert {each["detail"] for each in kept} == {f"without {dedup['cut_bytes'] // 6} bytes that were cut out"}
    export = ("datasets", "export", made.json()["run"]["name"], "--format", "hf-datasets", "--to", tmp_path / "texts")
    assert tutti(*export, "--data-dir", data_dir).code == 0
    rows = [row for file in (tmp_path / "texts").glob("*.parquet") for row in pq.read_table(file).to_pylist()]  # type: ignore[no-untyped-call]
    assert {row["source"]: row["text"] for row in rows} == said


@pytest.mark.parametrize(
    ("override", "code", "words"),
    [
        ("quality.rules=gofer", 2, ("quality.rules", "'gofer'", "gopher_quality")),
        (f"{FEW}x=1", 2, ("quality.thresholds", "gopher_least_wordsx")),
        ("dedup.against=datasets/none", 2, ("dedup.against", "'datasets/none'", "tutti datasets ls")),
        ("dedup.decontaminate.words=9", 2, ("dedup.decontaminate.path", "a value")),
        ("quality.languages=[klingon]", 2, ("quality.languages", "klingon", "such as en")),
        ("quality.languages=ja", 1, ("all 14 documents were rejected (14 by language)", "quality.languages")),
    ],
)
def test_a_choice_that_cannot_be_is_named(
    override: str, code: int, words: tuple[str, ...], data_dir: Path, pages: Path
) -> None:
    result = tutti(*tiny(data_dir, pages, "train.steps=2", override))
    assert result.code == code
    assert all(word in result.err for word in words), result.err
    assert "Traceback" not in result.err
