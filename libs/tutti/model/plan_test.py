"""A plan deals leaves and chunks to ranks, all of them, once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.model.chunks import Kind, Layout
from tutti.model.chunks_test import SMALL, models
from tutti.model.plan import Plan, Shape, ShapeError, Span
from tutti.model.spec import ModelSpec, SpecError
from tutti.model.tree import Node, PartialSums
from tutti.model.vote import record_lengths


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    leaves = draw(st.integers(1, 24))
    layout = Layout(draw(models()), draw(st.sampled_from([64, 1024, 16_384])))
    return Plan(layout, Shape(draw(st.integers(1, leaves))), leaves)


@given(plans())
def test_leaves_are_dealt_contiguously_and_evenly(plan: Plan) -> None:
    held = [plan.leaves_of(rank) for rank in plan.ranks]
    assert [leaf for part in held for leaf in part] == list(range(plan.leaves))
    assert max(map(len, held)) - min(map(len, held)) <= 1
    assert min(map(len, held)) >= 1


@given(plans())
def test_every_chunk_has_one_keeper_and_every_rank_its_chunks_in_order(plan: Plan) -> None:
    kept = [chunk for rank in plan.ranks for chunk in plan.chunks_of(rank)]
    assert kept == list(plan.layout.chunks)
    for rank in plan.ranks:
        assert all(plan.owner(chunk.index) == rank for chunk in plan.chunks_of(rank))


@given(plans())
def test_the_subtrees_of_all_ranks_make_the_whole_sum(plan: Plan) -> None:
    sums: PartialSums[int] = PartialSums(plan.leaves, lambda left, right: left + right)
    for rank in plan.ranks:
        for node in plan.nodes_of(rank):
            sums.add(node, 1)
    assert sums.total() >= 1


@given(plans())
def test_gradient_spans_tile_the_gradient_vector(plan: Plan) -> None:
    spans = sorted((s.start, s.stop) for rank in plan.ranks for s in plan.gradient_spans(rank) if s.length)
    end = 0
    for start, stop in spans:
        assert start == end
        end = stop
    assert end == plan.layout.gradient_elements


@given(plans())
def test_a_second_use_is_added_onto_the_state_it_shares(plan: Plan) -> None:
    uses = {use.gradient_start: use for use in plan.layout.uses}
    for rank in plan.ranks:
        own = plan.state_span(rank)
        for span in plan.gradient_spans(rank)[1:]:
            use = uses[plan.layout.elements]
            assert own.start + span.onto == use.state_start + span.start - use.gradient_start
            assert 0 < span.length <= own.length - span.onto
        assert plan.gradient_spans(rank)[0].onto == 0


@given(plans())
def test_a_snapshot_holds_each_chunk_whole_and_nothing_else(plan: Plan) -> None:
    for rank in plan.ranks:
        table = plan.snapshot_table(rank)
        assert [(entry.chunk, entry.kind) for entry in table] == [
            (chunk.index, kind) for kind in Kind for chunk in plan.chunks_of(rank)
        ]
        end = 0
        for entry in table:
            assert entry.offset == end
            assert entry.nbytes == 4 * plan.layout.chunks[entry.chunk].length
            end += entry.nbytes
        assert end == plan.snapshot_size(rank)


def test_a_power_of_two_of_leaves_a_rank_sends_each_gradient_once() -> None:
    layout = Layout(SMALL, 64)
    once = 4 * layout.elements
    for dp in (1, 2, 4, 8):
        plan = Plan(layout, Shape(dp), 8)
        assert sum(plan.bytes_sent(rank).reduce for rank in plan.ranks) == (dp - 1) * once
        assert plan.nodes_of(0) == (Node(3 - dp.bit_length() + 1, 0),)
    uneven = Plan(layout, Shape(3), 8)
    assert [uneven.nodes_of(rank) for rank in uneven.ranks] == [
        (Node(1, 0),),
        (Node(1, 1), Node(0, 4)),
        (Node(0, 5), Node(1, 3)),
    ]


def test_a_rank_alone_sends_nothing() -> None:
    traffic = Plan(Layout(SMALL), Shape(1), 8).bytes_sent(0)
    assert (traffic.reduce, traffic.vote, traffic.gather) == (0, 0, 0)


@pytest.mark.parametrize("dp", [2, 3, 5])
def test_a_rank_sends_its_subtrees_of_what_others_keep_its_record_and_its_parameters(dp: int) -> None:
    plan = Plan(Layout(SMALL, 64), Shape(dp), 8)
    for rank in plan.ranks:
        traffic, own = plan.bytes_sent(rank), sum(chunk.length for chunk in plan.chunks_of(rank))
        assert traffic.reduce == 4 * len(plan.nodes_of(rank)) * (plan.layout.gradient_elements - own - tied(plan, rank))
        assert traffic.vote == 8 * record_lengths(plan)[rank] * (dp - 1)
        assert traffic.gather == 4 * own * (dp - 1)


def tied(plan: Plan, rank: int) -> int:
    """Elements of second uses whose state this rank keeps."""
    return sum(span.length for span in plan.gradient_spans(rank)[1:])


def test_the_ranks_of_a_shape_are_the_product_of_its_axes() -> None:
    assert Shape(2, tp=3, pp=5, cp=7).ranks == 210


def test_a_number_that_no_chunk_has_has_no_keeper() -> None:
    plan = Plan(Layout(SMALL, 64), Shape(2), 8)
    for number in (-1, len(plan.layout.chunks)):
        with pytest.raises(IndexError, match=f"chunk {number}"):
            plan.owner(number)


def test_more_ranks_than_leaves_are_refused() -> None:
    with pytest.raises(ShapeError, match="dp is 9 with 8 leaves"):
        Plan(Layout(SMALL), Shape(9), 8)


@pytest.mark.parametrize("axis", ["tp", "pp", "cp"])
def test_an_axis_that_is_not_built_is_refused_by_name(axis: str) -> None:
    with pytest.raises(ShapeError, match=f"{axis}=2"):
        Plan(Layout(SMALL), Shape.from_dict(Shape(1).to_dict() | {axis: 2}), 8)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ShapeError, match="contiguous-v1"):
        Plan(Layout(SMALL), Shape(1, rule="round-robin"), 8)


def test_shapes_have_names_that_tell_them_apart() -> None:
    digests = {Shape(1).shape_digest, Shape(2).shape_digest, Shape(1, pp=2).shape_digest, Shape(1, rule="x").digest()}
    assert len(digests) == 4


def test_a_shape_without_ranks_is_refused() -> None:
    with pytest.raises(SpecError, match=r"Shape\.dp is 0"):
        Shape(0)


@given(plans(), st.integers(0, 30))
def test_validation_leaves_are_dealt_too_even_when_fewer_than_ranks(plan: Plan, leaves: int) -> None:
    assert [leaf for r in plan.ranks for leaf in plan.evaluation_leaves_of(r, leaves)] == list(range(leaves))


@given(models())
def test_a_layout_of_few_chunks_leaves_ranks_without_any(model: ModelSpec) -> None:
    plan = Plan(Layout(model), Shape(24), 24)
    assert sum(plan.snapshot_size(rank) for rank in plan.ranks) == 12 * plan.layout.elements
    assert {plan.state_span(rank) for rank in plan.ranks if not plan.chunks_of(rank)} <= {Span(0, 0)}
