"""fp16 and bf16 conversions of the kernels against NumPy and ml_dtypes: every bit pattern, and every rounding tie."""
import ml_dtypes
import numpy as np
import pytest
from aoec.kernels import tile
from numba import njit

PATTERNS = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
CASES = [(tile.half_to_float, tile.float_to_half, np.float16), (tile.bfloat_to_float, tile.float_to_bfloat, ml_dtypes.bfloat16)]


def over(f, x):
    """f of every element, in one compiled loop."""
    @njit
    def loop(x, out):
        for i in range(x.size):
            out[i] = f(x[i])
        return out
    return loop(x, np.zeros(x.size, np.float32 if x.dtype == np.uint16 else np.uint16))


@pytest.mark.parametrize("widen, narrow, dtype", CASES)
def test_every_pattern_widens_to_its_value(widen, narrow, dtype):
    assert np.array_equal(over(widen, PATTERNS), PATTERNS.view(dtype).astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("widen, narrow, dtype", CASES)
def test_every_value_narrows_back_to_its_pattern(widen, narrow, dtype):
    values = PATTERNS.view(dtype).astype(np.float32)
    back = over(narrow, values)
    number = ~np.isnan(values)
    assert np.array_equal(back[number], PATTERNS[number])
    assert np.isnan(back.view(dtype)[~number].astype(np.float32)).all()


@pytest.mark.parametrize("widen, narrow, dtype", CASES)
def test_ties_and_their_neighbours_round_to_nearest_even(widen, narrow, dtype):
    values = PATTERNS.view(dtype).astype(np.float64)
    finite = values[np.isfinite(values)]
    ordered = np.unique(finite)
    ties = ((ordered[:-1] + ordered[1:]) / 2).astype(np.float32)  # exact: one more bit than the dtype has
    edge = np.float32(2.0 * ordered[-1] - ordered[-2])  # where overflow begins is half way to this
    at = np.concatenate([ties, [(np.float32(ordered[-1]) + edge) / 2, edge, -edge, 1e38, 1e-45, -1e-45, -0.0]]).astype(np.float32)
    x = np.concatenate([at, np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf))])
    with np.errstate(over="ignore"):
        expected = x.astype(dtype)
    assert np.array_equal(over(narrow, x), expected.view(np.uint16))


@pytest.mark.parametrize("widen, narrow, dtype", CASES)
def test_compiled_equals_python(widen, narrow, dtype):
    with np.errstate(all="ignore"):
        for bits in PATTERNS[::97]:
            value = widen.py_func(bits)
            assert np.array_equal(value, widen(bits), equal_nan=True)
            assert narrow.py_func(value) == narrow(value)
