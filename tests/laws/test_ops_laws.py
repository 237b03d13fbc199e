"""Law: an operator's meaning, interpreted, equals its reference, over attributes, ranks, tails, negative and large values."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec import ops
from aoec.ir.graph.graph import OpNode
from aoec.ops.interpret import interpret
from aoec.ops.slices import nth, part_of
from aoec.ops.words.layout import pack_conv
from tests.laws.operators import draw_arrays, samples_of

Window = tuple[tuple[int, int], dict[str, tuple[int, ...]]]
RANDOM = st.integers(0, 2**32 - 1)
SIZE = st.integers(1, 5)


def array(seed: int, shape: tuple[int, ...], positive: bool = False) -> np.ndarray:
    """fp32 numbers between -1e3 and 1e3, small ones among them; without zeros where `positive`."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape) * 10.0 ** random.integers(-2, 3, shape)
    return (np.abs(x) + 0.01 if positive else x).astype(np.float32)


def agree(op: str, arrays: list[np.ndarray], attributes: dict[str, object]) -> None:
    """The law for one operator: equal shapes, and values within fp32 rounding of sums of the arguments' magnitude."""
    m = ops.meaning(op, [a.shape for a in arrays], attributes)  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        expected = np.asarray(ops.get(op).reference(*arrays, **attributes))
    agree_in_slices(op, arrays, attributes, expected)
    got = interpret(m, arrays)[0]
    if expected.dtype.kind in "iub":
        assert np.array_equal(got, expected) and got.shape == expected.shape
        return
    assert got.shape == expected.shape == ops.shape(op, [a.shape for a in arrays], attributes)  # type: ignore[arg-type]
    sums = ops.get(op).family in ("cube", "pool", "normalise", "row_norm", "reduce", "host")
    scale = float(np.abs(ops.get(op).reference(*[np.abs(a) for a in arrays], **attributes)).max()) if sums else 1.0
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(expected, got.astype(np.float32), rtol=2e-5, atol=2e-6 * max(scale, 1.0))


def agree_in_slices(op: str, arrays: list[np.ndarray], attributes: dict[str, object], expected: np.ndarray) -> None:
    """The law of slices for one operator: where it can be cut, the last part of its result is what it makes of parts of its arguments."""
    shapes, of = [a.shape for a in arrays], next((n for n in (2, 3, 5) if expected.size and expected.size % n == 0), 0)
    box = nth(expected.shape, of - 1, of) if of else None
    part = part_of(OpNode("n", op, tuple("abcdefgh"[:len(arrays)]), ("y",), tuple(attributes.items())), shapes, expected.shape, box) \
        if box else None  # type: ignore[arg-type]
    if box is None or part is None:
        return
    own = [a[tuple(slice(at, at + n) for at, n in b)] for a, b in zip(arrays, part.boxes) if b is not None]
    with np.errstate(all="ignore"):
        got = np.asarray(ops.get(op).reference(*own, **dict(part.node.attributes)))
    wanted = expected[tuple(slice(at, at + n) for at, n in box)]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * (float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0))
                                                                   if wanted.dtype.kind == "f" else 0))


@pytest.mark.parametrize("name", sorted(ops.OPS))
@given(RANDOM)
@settings(max_examples=3)
def test_every_operator(name: str, seed: int) -> None:
    """Of what its declaration says that it takes."""
    random = np.random.default_rng(seed)
    for sample in samples_of(ops.get(name), seed):
        agree(name, draw_arrays(sample, random), dict(sample.attributes))


@pytest.mark.parametrize("name", sorted(name for name, op in ops.OPS.items() if op.elements))
@given(st.data(), st.lists(SIZE, max_size=4), RANDOM)
@settings(max_examples=6)
def test_elementwise_operators_broadcast(name: str, data: st.DataObject, shape: list[int], seed: int) -> None:
    def narrowed() -> tuple[int, ...]:
        kept = [data.draw(st.sampled_from((1, n))) for n in shape]
        return tuple(kept[data.draw(st.integers(0, len(kept))):])
    sample = samples_of(ops.get(name), seed, [tuple(shape), *(narrowed() for _ in range(3))])[1]
    agree(name, draw_arrays(sample, np.random.default_rng(seed)), dict(sample.attributes))


@given(st.lists(SIZE, max_size=3), RANDOM, st.floats(-50, 50, width=32), st.floats(0, 50, width=32))
@settings(max_examples=25)
def test_numbers_of_either_sign(shape: list[int], seed: int, a: float, b: float) -> None:
    x = array(seed, tuple(shape))
    agree("adds", [x], {"scalar": a})
    agree("muls", [x], {"scalar": a})
    agree("clip", [x], {"lo": a, "hi": a + b})
    agree("clip", [x], {"lo": -np.inf, "hi": a})


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min"])
@given(st.data(), st.lists(SIZE, min_size=1, max_size=4), RANDOM)
@settings(max_examples=15)
def test_reductions(op: str, data: st.DataObject, shape: list[int], seed: int) -> None:
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape), unique=True))
    agree(op, [array(seed, tuple(shape))], {"axes": tuple(sorted(axes))})


@given(SIZE, st.integers(1, 20), SIZE, st.lists(st.integers(1, 3), max_size=2), st.data(), RANDOM)
@settings(max_examples=25)
def test_matmul(m: int, k: int, n: int, lead: list[int], data: st.DataObject, seed: int) -> None:
    def leading() -> list[int]:
        return [data.draw(st.sampled_from((1, d))) for d in lead][data.draw(st.integers(0, len(lead))):]
    turns = {f"trans_{x}": 1 for x in "ab" if data.draw(st.booleans())}
    a, b = (array(seed + at, (*leading(), *(pair[::-1] if f"trans_{x}" in turns else pair)))
            for at, (x, pair) in enumerate((("a", (m, k)), ("b", (k, n)))))
    agree("matmul", [a, b, *([array(seed + 2, (n + 3,))] if data.draw(st.booleans()) else [])], turns)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """An image size, and a kernel with stride, pads and dilation that fits it."""
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    dilation = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    pad = draw(st.tuples(*(st.integers(0, kernel[axis % 2] - 1) for axis in range(4))))
    size = tuple(draw(st.integers(max(1, d * (k - 1) + 1), 8)) for k, d in zip(kernel, dilation))
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    return (size[0], size[1]), {"kernel": kernel, "stride": stride, "pad": pad, "dilation": dilation}


@given(windows(), st.integers(1, 2), st.sampled_from([(1, 3, 5), (1, 17, 2), (2, 2, 3), (3, 1, 1)]), st.booleans(), RANDOM)
@settings(max_examples=30)
def test_conv2d(window: Window, n: int, channels: tuple[int, int, int], bias: bool, seed: int) -> None:
    size, attributes = window
    group, each_in, each_out = channels
    kernel = attributes.pop("kernel")
    x, w = array(seed, (n, group * each_in, *size)), array(seed + 1, (group * each_out, each_in, *kernel))
    b = [array(seed + 2, (group * each_out + 2,))] if bias else []
    agree("conv2d", [x, w, *b], {**attributes, "group": group})


@given(windows(), st.sampled_from([(1, 3, 5, 16), (1, 3, 5, 4), (1, 17, 4, 16), (1, 9, 3, 8), (2, 16, 3, 16), (3, 8, 2, 8)]),
       st.booleans(), RANDOM)
@settings(max_examples=30)
def test_conv2d_packed(window: Window, channels: tuple[int, ...], bias: bool, seed: int) -> None:
    size, attributes = window
    blocks, each_in, each_out, c0 = channels
    w = array(seed + 1, (blocks * each_out, each_in, *attributes["kernel"]))
    parts = [pack_conv(part, c0) for part in w.reshape(blocks, each_out, *w.shape[1:])]
    b = [array(seed + 2, (blocks * each_out + 1,))] if bias else []
    matrix = parts[0] if blocks == 1 else np.stack(parts)
    x = array(seed, (1, blocks * each_in, *size))
    agree("conv2d_packed", [x, matrix, *b], {**attributes, "c0": c0})
    rows = np.concatenate([*(part.T for part in parts), array(seed + 3, (2, parts[0].shape[0]))])
    agree("conv2d_packed", [x, rows, *b], {**attributes, "c0": c0, "trans_b": 1, "blocks": blocks, "channels": blocks * each_out})


@given(windows(), st.integers(1, 2), st.integers(1, 3), RANDOM)
@settings(max_examples=25)
def test_pools(window: Window, n: int, c: int, seed: int) -> None:
    size, attributes = window
    x = array(seed, (n, c, *size))
    agree("max_pool", [x], attributes)
    agree("avg_pool", [x], attributes)
    out = ops.shape("avg_pool", [x.shape], attributes)
    for channels in (1, 8):
        agree("avg_pool", [x, np.repeat(array(seed + 1, (1, 1, *out[2:])), channels, axis=1)], attributes)
    agree("global_avg_pool", [x], {})
    agree("lrn", [x], {"size": attributes["kernel"][0], "alpha": 0.1, "beta": 0.75, "bias": 1.0})


@given(st.lists(SIZE, min_size=1, max_size=4), st.data(), RANDOM)
@settings(max_examples=25)
def test_softmax_and_movement(shape: list[int], data: st.DataObject, seed: int) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = array(seed, tuple(shape))
    agree("softmax", [x], {"axis": axis})
    agree("log_softmax", [x], {"axis": axis})
    agree("swiglu", [np.concatenate([x, x[::-1]], axis=-1)], {})
    agree("cast", [x], {})
    agree("transpose", [x], {"perm": tuple(data.draw(st.permutations(range(len(shape)))))})
    agree("reshape", [x], {"shape": tuple(data.draw(st.permutations([*shape, 1])))})
    agree("reshape", [x], {"shape": (x.size,)})
    others = [array(seed + extent, (*shape[:axis], extent, *shape[axis + 1:])) for extent in (2, 1, 3)]
    agree("concat", [x, *others], {"axis": axis})
    for op in ("to_nc1hwc0", "from_nc1hwc0", "to_nz", "from_nz"):
        agree(op, [x], {})


@given(st.lists(st.integers(2, 6), min_size=1, max_size=4), st.integers(0, 2), RANDOM)
@settings(max_examples=20)
def test_normalised_rows(shape: list[int], factors: int, seed: int) -> None:
    x = array(seed, tuple(shape))
    more = [array(seed + at, (shape[-1],)) for at in range(1, factors + 1)]
    agree("layer_norm", [x, *more], {"epsilon": 0.1})
    agree("rms_norm", [x, *more[:1]], {"epsilon": 0.1})


@given(st.lists(SIZE, min_size=2, max_size=4), RANDOM)
@settings(max_examples=15)
def test_batch_norm(shape: list[int], seed: int) -> None:
    vectors = [array(seed + at, (shape[1],), positive=at == 4) for at in range(1, 5)]
    agree("batch_norm", [array(seed, tuple(shape)), *vectors], {"epsilon": 1e-5})


@pytest.mark.parametrize("op", ["equal", "less", "less_equal", "greater", "greater_equal", "unlike", "both", "either"])
@given(st.data(), st.lists(SIZE, max_size=3), RANDOM)
@settings(max_examples=8)
def test_truths(op: str, data: st.DataObject, shape: list[int], seed: int) -> None:
    truths = op in ("unlike", "both", "either")
    dtype = bool if truths else data.draw(st.sampled_from((np.float32, np.int64, np.int8)))
    a, b = (np.random.default_rng(seed + at).integers(0, 3, tuple(shape)).astype(dtype) for at in (0, 1))
    agree(op, [a, b], {})
    if truths:
        agree("invert", [a], {})
        agree("where", [a, array(seed, tuple(shape)), array(seed + 1, tuple(shape[-1:]))], {})


def test_what_is_no_number() -> None:
    x = np.array([1, np.inf, -np.inf, np.nan, 0], np.float32)
    for op in ("is_nan", "is_inf", "is_positive_inf", "is_negative_inf"):
        agree(op, [x], {})


@pytest.mark.parametrize("op", ["whole_div", "whole_rem", "mod", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"])
@given(st.lists(SIZE, max_size=3), RANDOM)
@settings(max_examples=8)
def test_whole_numbers(op: str, shape: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b = random.integers(-2**50, 2**50, tuple(shape)), random.integers(1, 13, tuple(shape))
    agree(op, [a, b if op.startswith("shift") else b * random.choice([-1, 1], tuple(shape))], {})
    agree("bit_not", [a], {})


@given(st.lists(SIZE, min_size=1, max_size=3), st.data(), RANDOM)
@settings(max_examples=15)
def test_quantised(shape: list[int], data: st.DataObject, seed: int) -> None:
    """Scales are powers of two, so that what lies half way between two numbers does so in any precision."""
    random = np.random.default_rng(seed)
    a, b, zero = (random.integers(-128, 128, (*shape, n), np.int8) for n in (3, 3, 1))
    scale, zero_point = np.float32(2.0) ** random.integers(-4, 3, (3,)), data.draw(st.integers(-128, 127))
    agree("dequantise", [a, scale.astype(np.float32), zero], {})
    agree("quantise", [array(seed, (*shape, 3)), scale.astype(np.float32), zero], {"lo": -128.0, "hi": 127.0})
    agree("requantise", [random.integers(-2**20, 2**20, (*shape, 3), np.int32), scale.astype(np.float32)], {"zero": float(zero_point)})
    more = data.draw(st.sampled_from([0.0, 128.0]))
    agree("add_quantised", [a, b], {"scale_a": float(scale[0]), "scale_b": float(scale[1]), "offset": zero_point / 4,
                                     **dict.fromkeys(("more_a", "more_b", "more"), more)})
    agree("unsigned", [a], {})
    agree("signed", [random.integers(0, 256, tuple(shape), np.uint8)], {})


@pytest.mark.parametrize("of", ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1", "float8e8m0"])
@given(st.lists(SIZE, max_size=3), RANDOM)
@settings(max_examples=8)
def test_few_bits(of: str, shape: list[int], seed: int) -> None:
    """Codes that are numbers in every format, and numbers within and beyond all of them (tests/lowering/test_coded.py has every code)."""
    agree("decode", [np.random.default_rng(seed).integers(0, 8, tuple(shape), np.uint8)], {"of": of})
    agree("encode", [array(seed, tuple(shape))], {"of": of, "saturate": seed % 2})


@given(SIZE, SIZE, SIZE, SIZE, st.lists(SIZE, max_size=2), st.booleans(), RANDOM)
@settings(max_examples=15)
def test_attention(m: int, n: int, d: int, e: int, lead: list[int], biased: bool, seed: int) -> None:
    q, k, v = (array(seed + at, (*lead, *matrix)) / 1e3 for at, matrix in enumerate(((m, d), (n, d), (n, e))))
    bias = [array(seed, (m, n)) / 1e3] if biased else []
    agree("attention", [q, k, v, *bias], {"scale": 0.5})
    agree("attention", [q, k, v.swapaxes(-1, -2), *bias], {"scale": 0.5, "trans_v": 1})


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.booleans()), min_size=1,
                max_size=4), RANDOM)
@settings(max_examples=15)
def test_slice(axes: list[tuple[int, int, int, int, bool]], seed: int) -> None:
    """Of each axis: a start, a size, a step, what lies behind, and whether it goes backwards."""
    shape = tuple(at + (n - 1) * by + 1 + rest for at, n, by, rest, _ in axes)
    starts = tuple(at + (n - 1) * by if back else at for at, n, by, _, back in axes)
    steps = tuple(-by if back else by for _, _, by, _, back in axes)
    agree("slice", [array(seed, shape)], {"starts": starts, "sizes": tuple(n for _, n, _, _, _ in axes), "steps": steps})


@given(st.lists(st.tuples(SIZE, st.booleans(), st.integers(0, 2), st.integers(0, 2)), max_size=4), st.integers(-3, 3), RANDOM)
@settings(max_examples=15)
def test_expand_and_pad(axes: list[tuple[int, bool, int, int]], value: int, seed: int) -> None:
    """Of each axis: an extent, whether it is read again and again, and what is put before and behind it."""
    shape = tuple(n for n, _, _, _ in axes)
    agree("expand", [array(seed, tuple(1 if again else n for n, again, _, _ in axes))], {"shape": (2, *shape)})
    if shape:
        before, after = tuple(b for _, _, b, _ in axes), tuple(a for _, _, _, a in axes)
        agree("pad", [array(seed, shape)], {"before": before, "after": after, "value": value})


@given(st.lists(SIZE, min_size=1, max_size=3), st.lists(SIZE, max_size=2), st.data(), RANDOM)
@settings(max_examples=15)
def test_gather(shape: list[int], found: list[int], data: st.DataObject, seed: int) -> None:
    axis, random = data.draw(st.integers(0, len(shape) - 1)), np.random.default_rng(seed)
    x, n = array(seed, tuple(shape)), shape[axis]
    agree("gather", [x, random.integers(-n, n, found)], {"axis": axis})
    own = [data.draw(st.integers(1, m)) if at != axis else m + 1 for at, m in enumerate(shape)]
    agree("gather_elements", [x, random.integers(-n, n, own)], {"axis": axis})


@given(st.tuples(SIZE, SIZE, SIZE, SIZE), st.tuples(st.integers(1, 3), st.integers(1, 3)), RANDOM)
@settings(max_examples=10)
def test_upsample(shape: tuple[int, ...], scale: tuple[int, int], seed: int) -> None:
    agree("upsample", [array(seed, shape)], {"scale": scale})


@given(st.tuples(SIZE, SIZE, SIZE, SIZE), st.tuples(st.integers(1, 3), st.integers(1, 3)), RANDOM)
@settings(max_examples=10)
def test_depth_to_space(shape: tuple[int, ...], scale: tuple[int, int], seed: int) -> None:
    n, c, h, w = shape
    agree("depth_to_space", [array(seed, (n, c * scale[0] * scale[1], h, w))], {"scale": scale})


@given(st.lists(SIZE, min_size=2, max_size=4), SIZE, st.integers(1, 2), RANDOM)
@settings(max_examples=15)
def test_interpolate(shape: list[int], places: int, behind: int, seed: int) -> None:
    axis = len(shape) - behind
    agree("interpolate", [array(seed, tuple(shape)), array(seed + 1, (places, shape[axis]))], {"axis": axis})
