"""The graph: what resources say, and walks over it."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from tutti.contracts.annotation.v1 import AnswerSource, Campaign, CampaignSpec, Preferences, PreferencesSpec
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.ingest.v1 import Crawl, CrawlSpec
from tutti.contracts.pipeline.v1 import Run, RunSpec, Stage, StageInput
from tutti.contracts.sampling.v1 import Experience, Export, ExportSpec, Sample, SampleSpec
from tutti.contracts.scheduler.v1 import Job, JobSpec, MixedDataset
from tutti.contracts.tokenization.v1 import Index, Tokenization, TokenizationSpec
from tutti.lineage import graph
from tutti.lineage.graph import Edge, walk


def neighbours(edges: set[Edge], *, up: bool):  # type: ignore[no-untyped-def]
    def of(names: list[str]) -> Iterator[Edge]:
        return (edge for edge in edges if (edge.child if up else edge.parent) in names)

    return of


def test_a_run_made_its_stages_and_each_stage_reads_the_one_before() -> None:
    run = Run(name="runs/a", stages=[Stage(resource="ingests/a"), Stage(resource="dedups/a"), Stage(resource="jobs/a")])
    assert set(graph.testimony(run).edges) == {
        Edge("runs/a", "ingests/a", "made"),
        Edge("runs/a", "dedups/a", "made"),
        Edge("runs/a", "jobs/a", "made"),
        Edge("ingests/a", "dedups/a", "read"),
    }


def test_a_run_has_the_title_that_it_has_now() -> None:
    run = Run(name="runs/a", spec=RunSpec(title="my texts"))
    assert [each.label for each in graph.testimony(run).vertices] == ["my texts"]
    run.labels.title = "lr 0.01"
    assert [each.label for each in graph.testimony(run).vertices] == ["lr 0.01"]


def test_a_stage_that_says_what_it_read_is_not_thought_to_read_the_one_before() -> None:
    def stage(resource: str, **inputs: str) -> Stage:
        return Stage(resource=resource, kind="any", inputs=[StageInput(role=r, resource=n) for r, n in inputs.items()])

    kept = stage("dedups/a", documents="filters/a", held_out="ingests/e", against="datasets/z")
    run = Run(
        name="runs/a",
        stages=[
            stage("ingests/a"),
            stage("filters/a", documents="ingests/a"),
            stage("ingests/e"),
            kept,
            stage("ingests/b"),
            stage("jobs/a", dataset="tokenizations/a"),
        ],
    )
    edges = {edge for edge in graph.testimony(run).edges if edge.relation != "made"}
    assert edges == {
        Edge("ingests/a", "filters/a", "read"),
        Edge("filters/a", "dedups/a", "read"),
        Edge("ingests/e", "dedups/a", "kept out"),
    }


def shared() -> set[Edge]:
    """Run b read the same texts from another crawl, and trained on the result that run a had made of them."""

    def stage(resource: str, read: str = "", *, reused: bool = False) -> Stage:
        inputs = [StageInput(role="pages", resource=read)] if read else []
        return Stage(resource=resource, kind="any", inputs=inputs, reused=reused)

    first = [stage("crawls/a"), stage("ingests/a", "crawls/a"), stage("jobs/a")]
    second = [stage("crawls/b"), stage("ingests/a", "crawls/b", reused=True), stage("jobs/b")]
    runs = (Run(name="runs/a", stages=first), Run(name="runs/b", stages=second))
    reads = {Edge("ingests/a", job, "trained") for job in ("jobs/a", "jobs/b")}
    return {*(edge for run in runs for edge in graph.testimony(run).edges), *reads}


def test_a_run_that_reused_a_result_is_no_ancestor_of_what_was_made_from_it() -> None:
    edges = shared()
    assert {Edge("runs/b", "ingests/a", "reused"), Edge("crawls/b", "ingests/a", "equal")} <= edges

    def above(name: str) -> set[str]:
        return set(walk(name, up=True, neighbours=neighbours(edges, up=True), limit=20).names)

    assert above("jobs/a") == {"jobs/a", "ingests/a", "crawls/a", "runs/a"}
    assert above("jobs/b") == {"jobs/b", "runs/b", "ingests/a", "crawls/a", "runs/a"}
    assert above("ingests/a") == {"ingests/a", "crawls/a", "runs/a", "runs/b"}
    below = walk("crawls/b", up=False, neighbours=neighbours(edges, up=False), limit=20).names
    assert {"ingests/a", "jobs/b"} <= set(below)


def test_a_result_that_no_run_made_comes_from_what_equals_its_input() -> None:
    edges = {edge for edge in shared() if not {edge.parent, edge.child} & {"runs/a", "crawls/a"}}
    above = walk("jobs/b", up=True, neighbours=neighbours(edges, up=True), limit=20).names
    assert set(above) == {"jobs/b", "runs/b", "ingests/a", "crawls/b"}


def test_a_run_that_made_a_result_and_reused_it_made_it() -> None:
    stages = [Stage(resource="ingests/a", kind="any", reused=reused) for reused in (False, True)]
    for order in (stages, stages[::-1]):
        assert graph.testimony(Run(name="runs/a", stages=order)).edges == (Edge("runs/a", "ingests/a", "made"),)


def test_a_crawl_that_began_with_another_comes_from_it() -> None:
    edge = Edge("crawls/a", "crawls/b", "revisited")
    assert graph.testimony(Crawl(name="crawls/b", spec=CrawlSpec(since="crawls/a"))).edges == (edge,)
    assert graph.testimony(Crawl(name="crawls/a")).edges == ()


def test_what_reads_a_dataset_or_a_checkpoint_says_so_itself() -> None:
    made = ["tokenizations/a", "jobs/a", "indexes/a", "samples/a"]
    run = Run(name="runs/a", stages=[Stage(resource=name) for name in made])
    assert set(graph.testimony(run).edges) == {Edge("runs/a", name, "made") for name in made}
    mixed = JobSpec(dataset_digest="blake3:a", mixed=[MixedDataset(digest="blake3:b")])
    spec = SampleSpec(checkpoint="checkpoints/a/0/2")
    said = [
        *graph.testimony(Index(name="indexes/a", dataset="datasets/a")).edges,
        *graph.testimony(Index(name="indexes/pending")).edges,
        *graph.testimony(Sample(name="samples/a", spec=spec)).edges,
        *graph.testimony(Export(name="exports/a", spec=ExportSpec(checkpoint=spec.checkpoint))).edges,
        *graph.testimony(Job(name="jobs/a", spec=mixed)).edges,
    ]
    assert said == [
        Edge("datasets/a", "indexes/a", "indexed"),
        Edge("checkpoints/a/0/2", "samples/a", "continued"),
        Edge("checkpoints/a/0/2", "exports/a", "exported"),
        Edge("datasets/a", "jobs/a", "trained"),
        Edge("datasets/b", "jobs/a", "trained"),
    ]


def test_a_training_over_preferences_came_from_them_from_its_models_and_from_no_dataset() -> None:
    spec = JobSpec(dataset_digest="blake3:0d", source="preferences/a", initial="checkpoints/t/0/5")
    spec.models.add(role="reference", checkpoint="checkpoints/r/0/5")
    assert set(graph.testimony(Job(name="jobs/a", spec=spec)).edges) == {
        Edge("preferences/a", "jobs/a", "trained"),
        Edge("checkpoints/t/0/5", "jobs/a", "initialised"),
        Edge("checkpoints/r/0/5", "jobs/a", "consulted"),
    }


def test_preferences_are_found_from_a_sample_and_from_what_was_trained_on_them() -> None:
    sources = [AnswerSource(sample="samples/one"), AnswerSource(sample="samples/other")]
    campaign = Campaign(name="campaigns/x", spec=CampaignSpec(answers=sources))
    fitted = Preferences(name="preferences/y", spec=PreferencesSpec(campaign="campaigns/x"))
    job = Job(name="jobs/reward", spec=JobSpec(source="preferences/y", dataset_digest="blake3:d"))
    edges = {edge for each in (campaign, fitted, job) for edge in graph.testimony(each).edges}
    down = walk("samples/one", up=False, neighbours=neighbours(edges, up=False), limit=10)
    assert down.names == ["samples/one", "campaigns/x", "preferences/y", "jobs/reward"]
    up = walk("jobs/reward", up=True, neighbours=neighbours(edges, up=True), limit=10)
    assert up.names == ["jobs/reward", "preferences/y", "campaigns/x", "samples/one", "samples/other"]
    relations = {edge.child: edge.relation for edge in edges}
    assert (relations["campaigns/x"], relations["preferences/y"]) == ("judged", "fitted")


def test_a_tokenization_made_its_tokenizer_unless_it_was_given_one() -> None:
    made = Tokenization(name="tokenizations/a", dataset="datasets/a", tokenizer="tokenizers/a")
    both = {Edge(made.name, "datasets/a", "made"), Edge(made.name, "tokenizers/a", "made")}
    assert set(graph.testimony(made).edges) == both
    made.spec.CopyFrom(TokenizationSpec(tokenizer="tokenizers/a"))
    assert [edge.child for edge in graph.testimony(made).edges] == ["datasets/a"]


def test_the_kind_of_a_name_is_the_singular_of_its_first_segment() -> None:
    names = ["indexes/a", "samples/a", "checkpoints/a/0/2", "document-shards/a", "dedups/a"]
    assert [graph.kind_of(name) for name in names] == ["index", "sample", "checkpoint", "document-shard", "dedup"]


def test_a_checkpoint_came_from_its_job_and_the_checkpoint_before() -> None:
    said = graph.testimony(Checkpoint(name="checkpoints/a/0/4", job="a", parent="checkpoints/a/0/2"))
    assert set(said.edges) == {
        Edge("jobs/a", "checkpoints/a/0/4", "made"),
        Edge("checkpoints/a/0/2", "checkpoints/a/0/4", "resumed"),
    }


def test_a_policy_comes_from_its_experiences_and_they_come_from_the_policy_before_and_from_the_reward_model() -> None:
    spec = JobSpec(source="conversations/c", dataset_digest="blake3:e")
    spec.models.add(role="reward", checkpoint="checkpoints/r/0/5")
    first, second = "checkpoints/p/0/2", "checkpoints/p/0/4"
    stated = [
        Job(name="jobs/r", spec=JobSpec(source="preferences/y", dataset_digest="blake3:d")),
        Checkpoint(name="checkpoints/r/0/5", job="jobs/r"),
        Job(name="jobs/p", spec=spec),
        Experience(name="experiences/p/0/0", job="jobs/p"),
        Checkpoint(name=first, job="jobs/p", experiences=["experiences/p/0/0"]),
        Experience(name="experiences/p/0/1", job="jobs/p", checkpoint=first),
        Checkpoint(name=second, job="jobs/p", parent=first, experiences=["experiences/p/0/1"]),
        Sample(name="samples/s", spec=SampleSpec(checkpoint=second)),
    ]
    edges = {edge for each in stated for edge in graph.testimony(each).edges}
    assert Edge("experiences/p/0/1", second, "trained") in edges
    for edge in edges:  # no resource is made from itself
        assert edge.child not in walk(edge.parent, up=True, neighbours=neighbours(edges, up=True), limit=20).names
    known = {"preferences/y", "conversations/c", *(str(each.name) for each in stated)}  # type: ignore[attr-defined]
    direct = {edge for edge in edges if edge.child in (first, second) and not edge.parent.startswith("experiences/")}
    for through in (edges, edges - direct):
        up = walk("samples/s", up=True, neighbours=neighbours(through, up=True), limit=20)
        assert set(up.names) == known
        down = walk("preferences/y", up=False, neighbours=neighbours(through, up=False), limit=20)
        assert set(down.names) == known - {"conversations/c"}


names = st.integers(0, 12)


@given(st.sets(st.tuples(names, names)), names, st.booleans())
def test_a_walk_reaches_exactly_what_is_reachable(pairs: set[tuple[int, int]], start: int, up: bool) -> None:
    edges = {Edge(f"a/{parent:02}", f"a/{child:02}", "made") for parent, child in pairs}
    reached, grew = {f"a/{start:02}"}, True
    while grew:
        more = {(e.parent if up else e.child) for e in edges if (e.child if up else e.parent) in reached}
        grew = not more <= reached
        reached |= more
    found = walk(f"a/{start:02}", up=up, neighbours=neighbours(edges, up=up), limit=100)
    assert set(found.names) == reached
    assert len(found.names) == len(reached)
    assert not found.truncated


def test_a_walk_that_was_cut_says_so() -> None:
    edges = {Edge("a/0", f"a/{child}", "made") for child in range(1, 9)}
    found = walk("a/0", up=False, neighbours=neighbours(edges, up=False), limit=4)
    assert len(found.names) == 4
    assert found.truncated
