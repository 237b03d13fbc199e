"""Law: the backward graph of every operator, run in fp64, gives what finite differences of the graph give."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec import ops
from aoec.frontend.training.gradients.gradient_rules import RULES, WITHOUT
from aoec.ops.samples import Sample, sample
from tests.laws.operators import REALS, samples_of
from tests.laws.test_gradients import MORE, REAL_ONES, arrays

from .graphs import Sketch, agrees

WINDOW: dict[str, Any] = {"stride": (2, 1), "pad": (1, 0, 1, 2), "dilation": (1, 2)}
OTHERS: list[tuple[str, Sample]] = [
    *MORE, ("conv2d", sample((2, 4, 7, 6), (4, 1, 3, 2), group=4, **WINDOW)),
    ("conv2d", sample((2, 3, 9, 8), (5, 3, 1, 1), stride=(2, 2), pad=(0, 0, 0, 0), dilation=(1, 1), group=1)),
    ("conv2d", sample((1, 17, 5, 6), (2, 17, 3, 2), stride=(2, 3), pad=(1, 0, 2, 1), dilation=(1, 2), group=1)),
    ("max_pool", sample((1, 2, 6, 4), kernel=(2, 2), stride=(2, 2), pad=(0, 0, 0, 0), dilation=(1, 1))),
    ("max_pool", sample((1, 2, 6, 4), kernel=(6, 4), stride=(1, 1), pad=(0, 0, 0, 0), dilation=(1, 1))),
    ("max_pool", sample((1, 2, 7, 6), kernel=(5, 4), stride=(1, 2), pad=(2, 1, 2, 2), dilation=(1, 1))),
    ("max_pool", sample((1, 2, 7, 6), kernel=(1, 2), stride=(3, 3), pad=(0, 0, 0, 0), dilation=(1, 1))),
    ("avg_pool", sample((1, 2, 6, 4), kernel=(3, 2), stride=(3, 2), pad=(0, 0, 0, 0), dilation=(1, 1))),
    ("avg_pool", sample((1, 2, 5, 5), (1, 1, 3, 3), kernel=(3, 3), stride=(2, 2), pad=(1, 1, 1, 1), dilation=(1, 1))),
    ("batch_norm", sample((2, 3, 4, 5), (3,), (3,), (3,), (3,), epsilon=2.0)), ("rms_norm", sample((2, 3, 4), (4,), epsilon=0.1)),
    ("layer_norm", sample((2, 3, 4), epsilon=0.1)), ("layer_norm", sample((2, 3, 4), (4,), epsilon=0.1)),
    ("attention", sample((2, 3, 4), (2, 5, 4), (2, 5, 6), (3, 5), scale=0.5)), ("log_softmax", sample((2, 3, 4), axis=0))]
TRAINED = [name for name in REAL_ONES if name not in WITHOUT]


def of_word(op: str, call: Sample, seed: int = 0) -> dict[str, str]:
    """The law for one operator: all arguments that are real are parameters, but the counts of an average, which are constants."""
    sketch = Sketch()
    inputs = [sketch.input(f"x{at}", x) for at, x in enumerate(arrays(call, seed))]
    dtype = ops.OPS[op].dtype or "fp32"
    if dtype not in REALS or not sketch.draft.inputs:
        return {}
    y = sketch.add(op, *inputs, dtype=dtype, attributes=dict(call.attributes))
    return agrees(sketch, sketch.weighted(y), inputs[:1] if op == "avg_pool" else ())


@pytest.mark.parametrize("op", TRAINED)
def test_every_operator_of_reals(op: str) -> None:
    for one in samples_of(ops.OPS[op]):
        of_word(op, one)


@pytest.mark.parametrize("op, call", OTHERS, ids=lambda x: x if isinstance(x, str) else "")
def test_of_other_shapes(op: str, call: Sample) -> None:
    of_word(op, call)


def test_the_list_is_complete() -> None:
    """Every operator is under the law, or gives or takes no reals, or is one of those that stand in no graph which is differentiated."""
    others = ops.OPS.keys() - set(TRAINED)
    assert WITHOUT.keys() <= others and not WITHOUT.keys() & RULES.keys() and RULES.keys() <= ops.OPS.keys()
    for op in others - WITHOUT.keys():
        read = {a.domain.dtype for s in samples_of(ops.OPS[op]) for a in s.arguments}
        assert ops.OPS[op].dtype not in ("", *REALS) or not read & {*REALS}, op


# ---------------------------------------------------------------- over shapes and attributes

small = st.integers(1, 4)


def values(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers of which no two are near each other, nor near those of the next seed, of both signs, none near 0."""
    random = np.random.default_rng(seed)
    size = int(np.prod(shape))
    x = (random.permutation(size) + 1.0) / max(4, size) * 2
    return (x * random.choice([-1, 1], x.shape) * (1 + seed % 10 * 0.0137)).reshape(shape)


@given(st.data(), st.lists(small, max_size=3), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_elementwise_under_broadcasting(data: st.DataObject, shape: list[int], seed: int) -> None:
    op = data.draw(st.sampled_from(["add", "sub", "mul", "div", "maximum", "minimum", "where", "axpy", "prelu"]))
    shapes = [tuple(data.draw(st.sampled_from([1, n])) for n in shape[data.draw(st.integers(0, len(shape))):]) for _ in range(3)]
    x = [values(s, seed + at) for at, s in enumerate(shapes)]
    if op == "where":
        x[0] = x[0] > 0
    sketch = Sketch(**{f"x{at}": v for at, v in enumerate(x)})
    names = [f"x{at}" for at in range(3 if op == "where" else 2)]
    sketch.draft.inputs = tuple(n for n in names if n in sketch.draft.inputs)
    agrees(sketch, sketch.weighted(sketch.add(op, *names, attributes={"alpha": 0.5} if op == "axpy" else {})))


@given(st.data(), small, small, small, st.booleans(), st.booleans(), st.booleans(), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_products(data: st.DataObject, m: int, k: int, n: int, trans_a: bool, trans_b: bool, bias: bool, seed: int) -> None:
    lead = data.draw(st.lists(small, max_size=2))
    leads = [tuple(data.draw(st.sampled_from([1, e])) for e in lead[data.draw(st.integers(0, len(lead))):]) for _ in range(2)]
    a, b = (*leads[0], *((k, m) if trans_a else (m, k))), (*leads[1], *((n, k) if trans_b else (k, n)))
    sketch = Sketch(a=values(a, seed), b=values(b, seed + 1), **({"c": values((n,), seed + 2)} if bias else {}))
    turned = {name: 1 for name, on in (("trans_a", trans_a), ("trans_b", trans_b)) if on}
    agrees(sketch, sketch.weighted(sketch.add("matmul", *sketch.draft.inputs, attributes=turned)))


@given(st.data(), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_convolutions(data: st.DataObject, seed: int) -> None:
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    kernel, stride, dilation = data.draw(pair), data.draw(pair), data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    span = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    pad = tuple(data.draw(st.integers(0, span[at % 2] - 1)) for at in range(4))
    size = tuple(data.draw(st.integers(max(1, s - pad[at] - pad[at + 2]), 7)) for at, s in enumerate(span))
    group, each, out = data.draw(st.sampled_from([1, 1, 2])), data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    sketch = Sketch(x=values((2, group * each, *size), seed), w=values((group * out, each, *kernel), seed + 1))
    agrees(sketch, sketch.weighted(sketch.add("conv2d", "x", "w", stride=stride, pad=pad, dilation=dilation, group=group)))


@given(st.data(), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_pools(data: st.DataObject, seed: int) -> None:
    pair = st.tuples(st.integers(1, 4), st.integers(1, 3))
    kernel, stride, dilation = data.draw(pair), data.draw(pair), data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    span = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    pad = tuple(data.draw(st.integers(0, k // 2)) for k in (*kernel, *kernel))
    size = tuple(data.draw(st.integers(max(1, s), 8)) for s in span)
    sketch = Sketch(x=values((1, 2, *size), seed))
    op = data.draw(st.sampled_from(["max_pool", "avg_pool"]))
    agrees(sketch, sketch.weighted(sketch.add(op, "x", kernel=kernel, stride=stride, pad=pad, dilation=dilation)))


@given(st.data(), st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_moves(data: st.DataObject, shape: list[int], seed: int) -> None:
    """Slices either way, with elements left out; reads where data say, from either end; several readers of one tensor."""
    axis = data.draw(st.integers(0, len(shape) - 1))
    sketch = Sketch(x=values(tuple(shape), seed))
    starts, sizes, steps = [], [], []
    for n in shape:
        step = data.draw(st.sampled_from([1, 2, -1, -2]))
        start = data.draw(st.integers(0, n - 1))
        starts.append(start)
        sizes.append(data.draw(st.integers(1, (n - 1 - start if step > 0 else start) // abs(step) + 1)))
        steps.append(step)
    part = sketch.add("slice", "x", starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
    places = data.draw(st.lists(st.integers(-shape[axis], shape[axis] - 1), min_size=1, max_size=4))
    index = sketch.input("index", np.array(places, np.int64))
    own = list(shape)
    own[axis] = len(places)
    which = sketch.input("which", np.random.default_rng(seed).integers(-shape[axis], shape[axis], own).astype(np.int64))
    losses = [sketch.weighted(y) for y in (part, sketch.add("gather", "x", index, axis=axis), sketch.add("exp", "x"),
                                           sketch.add("gather_elements", "x", which, axis=axis))]
    total = losses[0]
    for other in losses[1:]:
        total = sketch.add("add", sketch.add("reshape", total, shape=()), sketch.add("reshape", other, shape=()))
    agrees(sketch, total)
