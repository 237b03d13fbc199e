"""Rows of vendor kernels whose schedule is not published: what lies in L2 before them, and operators that tables name in their own way."""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aoec.base.errors import UnsupportedError
from aoec.simulate.state import CLEARED
from aoec.target.machine import load
from bench.cases.case import Case, parse_cases, read_cases
from bench.cases.chips import machine_of
from bench.cases.graphs import graph_of
from bench.cases.library import plan, tuned
from bench.cases.profilers import profiler_of

PUBLISHED = {c.id: c for c in read_cases([Path(__file__).parents[2] / "bench/cases/published.csv"])}


def published(name: str) -> Case:
    """The published case of that id."""
    return PUBLISHED[name]


@pytest.mark.parametrize("name, within", [("m0537", 0.02), ("m0664", 0.08)])
def test_what_streams_through_910a_takes_as_long_as_measured(name: str, within: float) -> None:
    """Of the first, a third of it written, follows the rate of HBM without turnaround; the other is an Add of another network."""
    assert tuned(published(name), 0, "previous").ratio == pytest.approx(1, abs=within)


# ---------------------------------------------------------------- what ran before

def test_profiles_of_models_are_known_by_their_source() -> None:
    """Two rows of one report are one kernel in the model and alone, and say so themselves."""
    told = {name: profiler_of(published(name)) for name in ("m0080", "m0173", "m0537", "m0167", "m0166", "m0234", "m0494")}
    assert told == {"m0080": "model", "m0173": "model", "m0537": "model", "m0167": "model", "m0166": "other", "m0234": "msopprof",
                    "m0494": "other"}


def test_in_a_model_weights_come_from_memory_and_what_was_just_made_does_not() -> None:
    machine = load("Ascend910_9392")
    product, = plan(graph_of(published("m0080")), machine, "model")
    assert [size for _, size in product.state] == [16 * 5120 * 2]
    rows, = plan(graph_of(published("m0142"), True), machine, "model")  # of two operands the first was made last
    assert [(name, size) for name, size in rows.state] == [(n, 16 * 151936 * 4) for n in reversed([b.name for b in rows.func.inputs])]
    pair, = plan(graph_of(published("m0527")), load("Ascend910A"), "model")  # neither matrix of a batch is weights; L2 holds a part of one
    assert sum(size for _, size in pair.state) == load("Ascend910A").l2_usable_bytes and len(pair.state) == 1
    cold, cleared, equal = (plan(graph_of(published("m0080")), machine, s)[0].state for s in ("cold", "cleared", "previous"))
    assert not cold and cleared == CLEARED and {name for name, _ in product.state} < {name for name, _ in equal}


def test_a_product_takes_longer_in_its_model_than_alone() -> None:
    """Of 4.2 MB of weights, 12.2 us for 6.9 alone (msModeling's gap analysis): here at least what HBM takes longer than L2 for them."""
    alone, beside = (tuned(published(name), 0) for name in ("m0166", "m0167"))
    assert alone.modelled is not None and beside.modelled is not None and published("m0167").value > 1.5 * published("m0166").value
    machine = load("Ascend910_9392")
    longer = 512 * 4096 * 2 * (1 / machine.hbm_bytes_per_cycle - 1 / machine.l2_bytes_per_cycle) / machine.clock_mhz
    assert beside.modelled > alone.modelled + 0.8 * longer


# ---------------------------------------------------------------- operators by the tables' names

@pytest.mark.parametrize("name, ops", [
    ("m0093", "slice"), ("m0104", "slice"), ("m0108", "expand"), ("m0135", "gather"), ("m0146", "gather"), ("m0158", "where"),
    ("m0540", "from_nz"), ("m0543", "to_nz"), ("m0644", "transpose"), ("m0666", "concat"), ("m0091", "quantise"), ("m0434", "cast"),
    ("m0519", "matmul gelu_tanh"), ("m0520", "matmul add"), ("m0523", "matmul muls"), ("m0067", "matmul dequantise")])
def test_the_operators_of_a_vendor_kernel(name: str, ops: str) -> None:
    """Its result has the shape that the row says, where it says one."""
    row = published(name)
    graph = graph_of(row, machine=machine_of(row.chip))
    assert " ".join(n.op for n in graph.nodes) == ops
    result = next(t for t in graph.tensors if t.name == graph.outputs[0])
    if row.shape.output and row.operator != "trans_data":
        assert result.shape == row.shape.output


@pytest.mark.parametrize("name, words", [
    ("m0094", "is not stated"), ("m0111", "order of the axes is not stated"), ("m0113", "which layouts"), ("m0555", "no order of the axes"),
    ("m0097", "two programs"), ("m0138", "no operator sort")])
def test_what_a_row_leaves_open_is_said(name: str, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        graph_of(published(name))


@pytest.mark.parametrize("operator, shape", [("gather", "8x16"), ("concat", "8x16 + 8x16"), ("broadcast", "8x16 -> 9x16"),
                                             ("slice", "8x16 -> 9x16"), ("trans_data", "8x16 -> 9x16")])
def test_shapes_that_do_not_fit_are_a_reason_and_no_failure(operator: str, shape: str) -> None:
    head = "id,chip,operator,shape,dtype,metric,value,unit,source,class"
    row, = parse_cases(f"{head}\nx,910B3,{operator},{shape},fp16,time,5,us,me,lib\n")
    assert "not" in tuned(row, 0).reason


@pytest.mark.parametrize("shape, op", [("2x3x5x7x16 -> 2x40x5x7", "from_nc1hwc0"), ("2x40x5x7 -> 2x3x5x7x16", "to_nc1hwc0"),
                                       ("2x3x16x16 -> 48x32", "from_nz"), ("48x32 -> 2x3x16x16", "to_nz")])
def test_conversions_of_layouts_are_known_by_their_shapes(shape: str, op: str) -> None:
    head = "id,chip,operator,shape,dtype,metric,value,unit,source,class"
    row, = parse_cases(f"{head}\nx,910A,trans_data,{shape},fp16,time,5,us,me,lib\n")
    graph = graph_of(row)
    work = [n for g in graph.groups if g.kind == "vector" for n in g.nodes]
    assert [n.op for n in graph.nodes if n.name in work] == [op] and tuned(row, 0).modelled


def test_an_order_of_axes_follows_from_the_shapes() -> None:
    row = published("m0663")
    node, = graph_of(row).nodes
    assert dict(node.attributes)["perm"] == (0, 3, 4, 1, 2) and row.shape.output == (32, 80, 80, 3, 85)
    same = replace(row, shape=replace(row.shape, output=(80, 80, 85, 3, 32)))
    node, = graph_of(same).nodes
    assert dict(node.attributes)["perm"] == (3, 4, 2, 1, 0)


def test_a_bound_is_of_the_operator_however_many_programs_of_ours_do_it() -> None:
    """A product of int8 and its scales are two programs: what another may do in one cannot take less than the longer of them."""
    r = tuned(published("m0070"), 0)
    assert r.bound is not None and r.modelled is not None
    weights = 2304 * 7168 / load("Ascend910_9392").hbm_bytes_per_s * 1e6
    assert weights < r.bound < r.modelled and r.bound < weights + 3
