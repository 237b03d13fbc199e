"""Arrays in a file: what is saved is loaded, equal arrays give equal bytes, and hostile files are refused in a sentence."""
from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aoec.base.errors import AoecError, BackendError, CheckError
from aoec.base.files import arrays

ARRAYS = hnp.arrays(hnp.scalar_dtypes().filter(lambda d: not d.hasobject), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))


@given(st.dictionaries(st.text("abc_0:/", min_size=1, max_size=6), ARRAYS, max_size=4))
def test_loaded_as_saved(tmp_path_factory: pytest.TempPathFactory, data: dict[str, np.ndarray]) -> None:
    path = tmp_path_factory.getbasetemp() / "round.npz"
    arrays.save(path, data)
    found = arrays.load(path)
    assert found.keys() == data.keys()
    for name, a in data.items():
        assert found[name].dtype == a.dtype and found[name].shape == a.shape and found[name].tobytes() == a.tobytes()
        found[name].flags.writeable or pytest.fail("arrays from a file are the caller's own")
    assert arrays.pack(dict(reversed(data.items()))) == path.read_bytes()


def test_fortran_order_and_numpy_agree(tmp_path: Path) -> None:
    a = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.savez(tmp_path / "a.npz", a=a)
    assert np.array_equal(arrays.load(tmp_path / "a.npz")["a"], a)
    arrays.save(tmp_path / "b.npz", {"a": a.T[1:]})
    assert np.array_equal(np.load(tmp_path / "b.npz")["a"], a.T[1:])


def _npz(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a.npy", content)
    return path


def _header(shape: str, dtype: str = "<f4") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize("content", [
    b"", b"hello", _header("(4,)"), _header("(4,)") + b"12345678", _header("(1,)") + b"12345678", _header("(1000000000000,)") + b"1234",
    _header("(-1,)") + b"1234", _header("(1,)", "|O") + b"12345678", _header("__import__('os').getcwd()"),
    _header("(1,)").replace(b"\x01\x00", b"\x09\x00"), _header("{" * 40),
], ids=range(11))
def test_hostile_arrays(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(CheckError, match=r"not a whole \.npz file of plain arrays"):
        arrays.load(_npz(tmp_path / "a.npz", content))


def test_missing_and_no_zip(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot read"):
        arrays.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(CheckError, match="not a whole"):
        arrays.load(tmp_path / "text")


@given(st.data())
def test_damaged_files_are_refused_or_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = arrays.pack({"a": np.arange(5), "b": np.ones((2, 2), np.float16)})
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + data.draw(st.integers(0, 3)):]
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(damaged)
    try:
        arrays.load(path)
    except AoecError as e:
        assert "\n" not in str(e)


def test_objects_are_not_written() -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        arrays.pack({"a": np.array([io])})
