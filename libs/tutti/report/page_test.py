"""What the page of a report promises: it needs nothing beside itself, says what it was told, and runs nothing of it."""

import base64
import hashlib
import itertools
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest

from tutti.backbone.ours import OwnFiles
from tutti.client.plain import Plain
from tutti.contracts.committer.v1 import GetCurveResponse
from tutti.corpus.documents.duplicates import How
from tutti.model.spec import OptimizerSpec
from tutti.report.example_test import HOSTILE, RECIPE, STEPS, continuations, facts
from tutti.report.facts import Cluster, Facts, Pages, clusters_of, heard, rules_of
from tutti.report.page import page, shortened
from tutti.report.samples import samples, visible
from tutti.report.writing import place_of, write
from tutti.web.charts import Series, chart, nice_ticks, smoothed

KEYS = ("prompt", "text")
Tag = tuple[str, dict[str, str | None]]


class Outline(HTMLParser):
    """The tags of a document in order, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.words = list[Tag](), list[str]()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def every(self, *names: str) -> list[Tag]:
        return [each for each in self.tags if each[0] in names]

    @property
    def text(self) -> str:
        return "".join(self.words)


@pytest.fixture(scope="module")
def outline() -> Outline:
    return Outline(page(facts()))


def test_nothing_is_fetched_and_nothing_is_run(outline: Outline) -> None:
    assert not outline.every("script", "img", "link", "iframe", "object", "embed", "form", "base")
    for name, attributes in outline.tags:
        assert not {"src", "srcset", "style", "action", "xlink:href"} & attributes.keys(), name
        assert not [key for key in attributes if key.startswith("on")], name
        assert (attributes.get("href") or "#").startswith("#"), name
    style = (files("tutti.report") / "page.css").read_text()
    assert not re.search(r"url\(|@import", style)
    (policy,) = [each["content"] for _, each in outline.every("meta") if "http-equiv" in each]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_how_each_language_is_tokenized_is_told(outline: Outline) -> None:
    assert "3.12" in outline.text.partition("Bytes a token")[2]


def test_what_others_make_of_a_language_stands_beside_it_or_nothing() -> None:
    told, alone = (Outline(page(each)).text for each in (facts(), replace(facts(), references={})))
    table = told.partition("How the tokenizer tells each language")[2].partition("The datasets that")[0]
    assert "Beside it other tokenizers" in table
    assert f"Bytes a tokensome/model{shortened(HOSTILE[2])}" in "".join(table.split("\n"))
    assert "3.124.023.95" in table
    assert table.rstrip().endswith("2.50")
    assert "Beside it" not in alone
    assert "some/model" not in alone


def test_what_the_model_had_read_is_marked_in_its_samples(outline: Outline) -> None:
    first, second, third, fourth = samples(continuations())
    assert "".join(piece.text for piece in first.pieces) == visible("".join(continuations()[0][key] for key in KEYS))
    assert [(piece.kind.value, piece.text) for piece in first.pieces[:3]] == [
        ("prompt", "The «os» module"),
        ("read", " provides a portable way "),
        ("own", "— {{ 7 * 7 }}</bdi><b>  of using\nit."),
    ]
    assert [(span.tokens, len(span.holders)) for span in first.spans or ()] == [(12, 3), (9, 1)]
    assert (second.spans, third.spans, fourth.spans) == ((), (), ())
    told = outline.text.partition("What the last checkpoint makes of prompts")[2]
    assert "12 tokens, in 3 places" in told
    assert "steps 3, 71" in told
    assert "8 tokens in a row or more" in told
    assert "No 8 tokens in a row that reach into what the model wrote stand in datasets/aaaaaaaaaaaa." in told
    assert "datasets/bbbbbbbbbbbb has no index and could not be searched" in told
    assert told.count("is not known") == 1
    assert "The model wrote nothing." in told


def test_each_dataset_of_a_mixture_is_told(outline: Outline) -> None:
    assert "75.0 %" in outline.text
    assert "4.03" in outline.text


def test_what_pages_said_is_text(outline: Outline) -> None:
    for told in HOSTILE:
        assert shortened(told) in outline.text
    assert "first-light <b>of</b> the docs" in outline.text
    assert "{{ 7 * 7 }}" in outline.text
    assert not outline.every("b", "i")
    assert "\0" not in outline.text
    assert "\u202e" not in outline.text


def test_each_row_of_the_documents_has_what_the_one_above_it_has_less_what_went() -> None:
    found = facts().summary
    found["dedup"] |= {"documents": 262, "duplicates": 20, "contaminated": 4, "short": 3}
    told = page(Facts(found))
    cells = re.findall(r"<tr><th scope=.row.>([^<]*)</th><td[^>]*>([0-9,]+)</td><td[^>]*>([0-9,]*)</td>", told)
    rows = [(name, int(left), int(gone or 0)) for name, left, gone in cells[:6]]
    assert rows[-3:] == [
        ("Free of evaluation texts", 285, 4),
        ("Not a duplicate", 265, 20),
        ("Enough left of it", 262, 3),
    ]
    assert all(before - gone == left for (_, before, _), (_, left, gone) in itertools.pairwise(rows))
    assert "20 of 285 documents went because another one" in told


def test_what_was_read_and_the_recipe_are_told(outline: Outline) -> None:
    header, _, rest = outline.text.partition("Documents kept")
    assert shortened(", ".join(HOSTILE[:2])) in header
    recipe = rest.rpartition("with every default")[2]
    assert json.loads(recipe[recipe.index("{") : recipe.rindex("}") + 1]) == json.loads(RECIPE)


def test_it_can_be_read_by_its_structure(outline: Outline) -> None:
    levels = [int(name[1]) for name, _ in outline.tags if re.fullmatch(r"h[1-6]", name)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    ids = [each["id"] for _, each in outline.tags if "id" in each]
    assert len(ids) == len(set(ids))
    assert {str(each["href"])[1:] for _, each in outline.every("a")} <= set(ids)
    assert all(each.get("scope") in ("col", "row") for _, each in outline.every("th"))
    assert all(each.get("role") == "img" or each.get("aria-hidden") for _, each in outline.every("svg"))
    assert outline.tags[0] == ("html", {"lang": "en"})


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_words_stand_out_from_their_ground_in_the_light_and_in_the_dark() -> None:
    style = (files("tutti.report") / "page.css").read_text()
    schemes = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part)) for part in re.findall(r":root \{([^}]*)\}", style)]
    assert len(schemes) == 2
    for colours in schemes:
        for ink in ("ink", "soft", "accent", "warm", "alarm"):
            for ground in ("ground", "paper"):
                high, low = sorted((luminance(colours[ink]), luminance(colours[ground])), reverse=True)
                assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, ground)


def test_a_run_of_which_little_is_known_has_a_short_report() -> None:
    told = facts()
    bare: Plain = {key: [] if isinstance(value, list) else None for key, value in told.summary.items()}
    bare |= {key: told.summary[key] for key in ("run", "took", "seconds")}
    outline = Outline(page(Facts(bare)))
    assert [each["id"] for _, each in outline.every("section")] == ["stages"]
    assert len(outline.every("li")) == 1
    assert not outline.every("dl")


def test_the_report_has_the_time_from_the_start_of_a_run_to_its_end(outline: Outline) -> None:
    assert "took 5 min 12 s" in outline.text


def test_a_training_without_a_step_has_no_loss() -> None:
    told = facts()
    told.summary["train"] |= {"step": 0, "loss": 0.0, "newest_loss": None, "newest_steps": 0}
    top = Outline(page(told)).text.partition("What became")[0]
    assert "Steps0" in top.replace("\n", "")
    assert "Loss" not in top


def test_a_run_that_failed_says_why_and_nothing_of_what_was_not_done() -> None:
    told = facts().summary
    failed: Plain = {key: [] if isinstance(value, list) else None for key, value in told.items()}
    failed |= {key: told[key] for key in ("took", "seconds", "ingest")}
    failed["run"] = {
        **told["run"],
        "state": "failed",
        "reason": "filter: all 301 documents were rejected <b>by</b> one",
    }
    failed["filter"] = {**told["filter"], "state": "failed", "documents": 0, "rejected": 0}
    failed["dedup"] = {**told["dedup"], "state": "pending"}
    outline = Outline(page(Facts(failed)))
    assert "all 301 documents were rejected <b>by</b> one" in outline.text
    assert "Extracted as documents" in outline.text
    assert "Kept by the rules" not in outline.text
    assert "duplicate" not in outline.text.lower().replace("dedup", "")


def test_the_page_and_its_curves_are_written_and_nothing_else(tmp_path: Path) -> None:
    place = place_of(tmp_path, "runs/r")
    assert place == tmp_path / "reports" / "r.html"
    for told in (facts(), replace(facts(), curve=GetCurveResponse())):
        write(told, place, OwnFiles())
    names = {path.name for path in place.parent.iterdir()}
    assert names == {"r.html", "r.loss.svg", "r.gradient-norm.svg", "r.learning-rate.svg"}
    assert (place.parent / "r.loss.svg").read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')


def test_rules_and_clusters_are_counted_and_the_most_come_first() -> None:
    rows = [{"what": f"rejected/{rule}", "source": f"{rule}{at}", "detail": "seen"} for rule in "ab" for at in range(4)]
    first, second = rules_of(rows[1:], {})
    assert (first.name, first.pages, second.name, second.pages) == ("b", 4, "a", 3)
    assert first.examples == (("b0", "seen"), ("b1", "seen"), ("b2", "seen"))
    assert [each.pages for each in rules_of(rows[1:], {"a": 150, "c": 9})] == [150, 4]


def test_of_a_cluster_it_is_told_which_document_stays_and_whether_it_is_of_an_earlier_dataset() -> None:
    found = [("a1", How.NEAR), ("b1", How.EARLIER), ("b2", How.EARLIER_NEAR), ("c1", How.EXACT)]
    rows = [
        {"source": source, "what": f"duplicate/{how}", "detail": how.detail(0.91, f"documents/{source[0]}")}
        for source, how in found
    ]
    of_earlier, own, _ = clusters_of(rows)
    assert of_earlier == Cluster("documents/b", 3, ("b1", "b2"), earlier=True)
    assert own == Cluster("documents/a", 2, ("a1",))
    told = Outline(page(replace(facts(), pages=Pages(clusters=(of_earlier, own))))).text
    assert "3 documents · stays: documents/b of an earlier dataset" in told
    assert told.count("of an earlier dataset") == 1


def test_pages_are_told_once_every_stage_that_left_some_out_was_heard_of() -> None:
    rows = [{"what": "rejected/not_ok"}, {"what": "rejected/binary"}]
    assert heard([], [])
    assert heard(rows, [{"not_ok": 3}])
    assert not heard([], [{"not_ok": 3}])
    assert not heard(rows, [{"not_ok": 3}, ["gopher_least_words", "language"]])
    assert heard([*rows, {"what": "rejected/language"}], [{"not_ok": 3}, ["gopher_least_words", "language"]])
    assert heard([{"what": "duplicate/near"}], [["duplicate"]])


def test_a_line_is_broken_where_nothing_is_known() -> None:
    broken = chart(Series("Loss", "Nats", [(1, 4.0), (2, 3.0), (3, math.nan), (4, 2.0), (5, 1.0)]), ident="c")
    assert len(re.findall("M", re.search(r' d="([^"]*)"', broken)[1])) == 2  # type: ignore[index]
    assert chart(Series("Loss", "Nats", [(1, math.inf)]), ident="c") == ""
    assert len(re.findall("M", page(facts()).split(' d="')[1].split('"')[0])) == 3  # skipped steps, and a gap
    assert "at step 800" in page(facts())
    assert STEPS == 800


@pytest.mark.parametrize(("low", "high"), [(0, 1), (3.2, 3.3), (1e-7, 2e-7), (5, 5), (0, 0), (-3, 4e9)])
def test_ticks_are_few_round_and_around_all(low: float, high: float) -> None:
    ticks = nice_ticks(low, high, 5)
    assert 2 <= len(ticks) <= 8
    assert ticks[0] <= low + 1e-9
    assert ticks[-1] >= high - 1e-9


def test_what_stages_of_a_recipe_say_of_their_work_is_told() -> None:
    found = facts()
    stages = found.summary["run"]["stages"]
    words = "refused: win: the low bound of the judged win rate is 0.1; expected above 0.5"
    stages.append({**stages[-1], "name": "released", "summary": words})
    found.summary["seconds"]["released"] = 0.1
    assert words in Outline(page(found)).text
    assert words not in Outline(page(facts())).text


def test_the_top_has_gap_speed_machine_settings_and_the_names_of_checkpoints() -> None:
    told = facts()
    training = {
        "model": {"layers": 4, "width": 128, "heads": 4, "kv_heads": 2, "vocabulary": 4096, "context": 256},
        "optimizer": OptimizerSpec(peak_rate=0.004, steps=800, warmup_steps=40).to_dict(),
        "step": {"leaves": 8, "rows": 2, "seed": 7},
    }
    job = told.summary["train"]
    job["spec"]["training"], job["tokens_per_second"] = json.dumps(training), 11_820.4
    told.summary["checkpoints"][-1]["name"] = "checkpoints/j/0/800"
    top = Outline(page(replace(told, machines=("2 cores of a processor, 8 GiB (nodes/a)",)))).text.partition(
        "What became"
    )[0]
    for words in (
        "Gap+1.",
        "Speed11,820",
        "2 cores of a processor, 8 GiB (nodes/a)",
        "4 layers, width 128, 4 heads (2 of keys), vocabulary 4,096, context 256",
        "learning rate 0.004, warmup 40, weight decay 0.1, clipping 1",
        "4,096 tokens a step: 8 microbatches of 2 rows, seed 7",
        "checkpoints/j/0/800 and 7 before",
    ):
        assert words in top.replace(" \n", "").replace("\n", ""), words


def test_a_smoothed_line_starts_at_the_first_value_and_passes_over_what_is_not_finite() -> None:
    points = [(step, math.nan if step == 7 else 4.0) for step in range(1, 60)]
    assert {round(value, 12) for _, value in smoothed(points)} == {4.0}
    assert 7 not in dict(smoothed(points))
    assert smoothed(points[:20]) == []
    large = chart(Series("Loss", "Nats", points, [(20, 4.1), (40, 4.0)], large=True), ident="c")
    assert [large.count(f'class="{name}"') for name in ("line faint", "smooth", "held", "dot")] == [1, 1, 1, 2]
