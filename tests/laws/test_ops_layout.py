"""Laws of layouts: stored arrays lie as documented, and every conversion can be undone."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.base.errors import UnsupportedError
from aoec.ir.graph.graph import Tensor
from aoec.ops.words.layout import c0_of, pack_conv, pack_zn, stored_shape, to_logical, to_physical, unpack_conv, unpack_zn

NUMPY = {"fp16": np.float16, "fp32": np.float32}
SHAPE = st.tuples(st.integers(1, 3), st.integers(1, 37), st.integers(1, 5), st.integers(1, 20))


@given(SHAPE, st.sampled_from(sorted(NUMPY)), st.sampled_from(["ND", "NC1HWC0", "NC1HWC0_C04", "NZ", "ZN"]))
def test_stored_arrays_return(shape: tuple[int, ...], dtype: str, layout: str) -> None:
    t = Tensor("t", dtype, shape, layout)
    x = np.random.default_rng(0).standard_normal(shape).astype(NUMPY[dtype])
    stored = to_physical(x, t)
    assert stored.shape == stored_shape(t) and stored.dtype == x.dtype and stored.flags.c_contiguous
    np.testing.assert_array_equal(to_logical(stored.reshape(-1), t), x)
    assert np.sum(stored != 0) == np.sum(x != 0)  # all else is zero


@given(SHAPE, st.sampled_from(sorted(NUMPY)), st.data())
def test_elements_lie_where_the_text_says(shape: tuple[int, ...], dtype: str, data: st.DataObject) -> None:
    x = np.arange(np.prod(shape)).reshape(shape).astype(NUMPY[dtype])
    c0 = c0_of(dtype)
    n, c, h, w = at = tuple(data.draw(st.integers(0, extent - 1)) for extent in shape)
    assert to_physical(x, Tensor("t", dtype, shape, "NC1HWC0"))[n, c // c0, h, w, c % c0] == x[at]
    assert to_physical(x, Tensor("t", dtype, shape, "NC1HWC0_C04"))[n, c // 4, h, w, c % 4] == x[at]
    assert to_physical(x, Tensor("t", dtype, shape, "ZN"))[n, c, h // c0, w // 16, w % 16, h % c0] == x[at]
    assert to_physical(x, Tensor("t", dtype, shape, "NZ"))[n, c, w // c0, h // 16, h % 16, w % c0] == x[at]


@given(st.integers(1, 40), st.integers(1, 70), st.sampled_from(sorted(NUMPY)))
def test_matrices_lie_as_pixels_and_channels(rows: int, columns: int, dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(NUMPY[dtype])
    matrix, image = Tensor("t", dtype, x.shape, "NC1HWC0"), Tensor("t", dtype, (1, columns, 1, rows), "NC1HWC0")
    stored = to_physical(x, matrix)
    assert stored.shape == stored_shape(matrix)
    np.testing.assert_array_equal(stored.reshape(stored_shape(image)), to_physical(x.T.reshape(image.shape), image))
    np.testing.assert_array_equal(to_logical(stored.reshape(-1), matrix), x)


@given(st.tuples(st.integers(1, 5), st.integers(1, 20), st.integers(1, 3), st.integers(1, 3)),
       st.sampled_from([(8, 8), (16, 16), (4, 16)]), st.data())
def test_packed_weights(shape: tuple[int, ...], widths: tuple[int, int], data: st.DataObject) -> None:
    """By the channels to a pixel, in fractals as deep as the dtype's C0."""
    each, c0 = widths
    w = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    matrix = pack_conv(w, each)
    co, c, kh, kw = (data.draw(st.integers(0, extent - 1)) for extent in shape)
    assert matrix[((c // each * shape[2] + kh) * shape[3] + kw) * each + c % each, co] == w[co, c, kh, kw]
    np.testing.assert_array_equal(unpack_conv(matrix, shape[1], (shape[2], shape[3]), each), w)
    np.testing.assert_array_equal(unpack_zn(pack_zn(matrix, c0), *matrix.shape), matrix)


def test_other_layouts_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="layout ZZ"):
        stored_shape(Tensor("t", "fp16", (3, 4), "ZZ"))
