"""Named arrays in one file (.npz): read without pickle and within the size that the file declares, written with equal bytes."""
from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from aoec.base.errors import BackendError, CheckError
from aoec.base.files.files import check_file, reason, write_whole

FIXED_DATE = (1980, 1, 1, 0, 0, 0)  # the zip format's first day: equal arrays give equal files
LIMIT_BYTES = 16 << 30


class Lazy(Mapping[str, np.ndarray]):
    """Arrays by name, of which only the names are known until one is asked for; `make` then makes all of them, once."""

    def __init__(self, names: Iterable[str], make: Callable[[], Mapping[str, np.ndarray]]) -> None:
        self._names = dict.fromkeys(names)
        self._make: Callable[[], Mapping[str, np.ndarray]] | None = make
        self._made: Mapping[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        if self._make is not None:
            self._made, self._make = self._make(), None  # with all that it holds on to
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def load(path: str | Path) -> dict[str, np.ndarray]:
    """Return name -> array of a .npz file. Raise BackendError where it cannot be read, and CheckError where it is no valid .npz file."""
    check_file(path, "a file of arrays")
    try:
        with zipfile.ZipFile(path) as z:
            return {entry.filename.removesuffix(".npy"): _read(z, entry) for entry in z.infolist()}
    except OSError as e:
        raise BackendError(f"cannot read {path}: {reason(e)}") from e
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError, KeyError, TypeError, SyntaxError,
            tokenize.TokenError) as e:  # the last two from NumPy's reading of a header
        raise CheckError(f"this is not a whole .npz file of plain arrays ({str(e).splitlines()[0] if str(e) else type(e).__name__})",
                         source=str(path)) from e


def save(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Save the arrays to a file, uncompressed and sorted by name. None of them is copied as a whole."""
    write_whole(path, lambda f: write(f, arrays))


def pack(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the bytes of a .npz file of the arrays; equal arrays give equal bytes."""
    out = io.BytesIO()
    write(out, arrays)
    return out.getvalue()


def write(file: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Write to a file the bytes that `pack` returns."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as z:
        for name in sorted(arrays):
            array, info = np.asarray(arrays[name]), zipfile.ZipInfo(f"{name}.npy", FIXED_DATE)
            info.file_size = array.nbytes  # but for its header: where the zip format needs longer fields, it says so beforehand
            with z.open(info, "w") as entry:
                npy.write_array(entry, array, allow_pickle=False)


def _read(z: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with z.open(entry) as f:
        shape, fortran, dtype = _header(f)
        size_bytes = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or size_bytes > min(entry.file_size, LIMIT_BYTES):
            raise ValueError(f"{entry.filename} declares {size_bytes:,} bytes of {dtype} and the file holds {entry.file_size:,}")
        data = bytearray(size_bytes)
        read_bytes = f.readinto(data)  # type: ignore[attr-defined]
        more = len(f.read(1))  # reading past the last byte makes zipfile verify the checksum
    if read_bytes + more != size_bytes:
        raise ValueError(f"{entry.filename} holds {read_bytes + more:,} bytes instead of {size_bytes:,}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _header(f: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = npy.read_magic(f)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"array format {version[0]}.{version[1]} is not known")
    return npy.read_array_header_1_0(f) if version == (1, 0) else npy.read_array_header_2_0(f)
