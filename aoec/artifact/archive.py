"""Archive: a zip file of stored entries. Equal entries are written as equal bytes. A file that is read is not trusted.

Nothing is unpacked to disk and nothing is compressed, so an entry cannot be larger than the file. Names have one of a fixed list of
forms, and each is there at most once.
"""
from __future__ import annotations

import hashlib
import io
import json
import mmap
import os
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from aoec.base.errors import BackendError, CheckError
from aoec.base.files.files import check_file, reason

FIXED_DATE = (1980, 1, 1, 0, 0, 0)  # the zip format's first day
NAMES = re.compile(r"manifest\.json|machine\.toml|graph\.graph|graphs/\w{1,200}\.graph|traces/\w{1,200}\.sched|programs/\w{1,200}\.prog|"
                   r"weights/[0-9a-f]{64}\.npy", re.ASCII)
LOCAL_BYTES = 30  # before each entry, without its name (APPNOTE.TXT 4.3.7)
FIRST_DAY = 1 << 5 | 1  # FIXED_DATE as a zip file writes it: years since 1980 from bit 9 on, month from bit 5 on, day
ENTRY_LIMIT = 1 << 17
TEXT_LIMIT_BYTES = 64 << 20
HEADER_LIMIT_BYTES = 4096
# what zipfile and numpy raise on bytes that are not what they say
DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, EOFError, NotImplementedError, RuntimeError, KeyError, TypeError,
          SyntaxError, OverflowError, IndexError, tokenize.TokenError)


def pack(entries: Mapping[str, bytes | Stored]) -> bytes:
    """Return a zip file of the entries; equal entries give equal bytes."""
    out = io.BytesIO()
    write(out, entries)
    return out.getvalue()


def write(file: IO[bytes], entries: Mapping[str, bytes | Stored]) -> None:
    """Write the bytes that `pack` returns into a file. It writes one array after the other, and holds none of them twice in memory."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as z:
        for name in sorted(entries):
            entry, info = entries[name], _info(name)
            parts = (entry,) if isinstance(entry, bytes) else (entry.header, entry.rest())
            info.file_size = sum(map(len, parts))  # so that an entry of 2 GB and more gets a header that can say so
            with z.open(info, "w") as out:
                for part in parts:
                    out.write(part)


@dataclass(frozen=True)
class Stored:
    """An entry that is an array: how it begins, and what gives the rest when it is wanted."""

    header: bytes
    rest: Callable[[], memoryview]


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, FIXED_DATE)
    info.create_system, info.external_attr = 3, 0o644 << 16  # the same on every system
    return info


@dataclass(frozen=True)
class Hashed:
    """An entry that is known by how it begins and by the sha256 (hex) of the rest."""

    header: bytes
    rest_bytes: int
    rest_hash: str

    def is_(self, part: memoryview) -> bool:
        start = len(self.header)
        return part[:start] == self.header and hashlib.sha256(part[start:]).hexdigest() == self.rest_hash


def holds(path: str | Path, entries: Mapping[str, bytes | Hashed]) -> bool:
    """Return True where the file is what `pack` would write of the entries, byte for byte. Nothing in it is taken at its word."""
    try:
        with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as all_:
            return _holds(all_, entries)
    except (OSError, ValueError, zipfile.LargeZipFile):  # an empty file cannot be mapped; of 4 GB and more the layout is another one
        return False


def _holds(data: memoryview, entries: Mapping[str, bytes | Hashed]) -> bool:
    at, directory = 0, b""
    for name in sorted(entries):
        wanted, info = entries[name], _info(name)
        start = at + LOCAL_BYTES + len(name)
        info.file_size = info.compress_size = len(wanted) if isinstance(wanted, bytes) else len(wanted.header) + wanted.rest_bytes
        info.header_offset = at
        with data[start:start + info.file_size] as part:
            if not (wanted.is_(part) if isinstance(wanted, Hashed) else part == wanted):
                return False
            info.CRC = zlib.crc32(part)
        if data[at:start] != info.FileHeader(zip64=False):
            return False
        at, directory = start + info.file_size, directory + _directory_record(info)
    return data[at:] == directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(entries), len(entries), len(directory), at, 0)


def _directory_record(info: zipfile.ZipInfo) -> bytes:
    """Return the record of an entry in the directory at the end of a zip file (APPNOTE.TXT 4.3.12), as zipfile writes it."""
    name = info.filename.encode()
    versions = info.create_version, info.create_system, info.extract_version, 0
    sizes = info.CRC, info.compress_size, info.file_size
    return struct.pack("<4s4B4H3L5H2L", b"PK\1\2", *versions, 0, info.compress_type, 0, FIRST_DAY, *sizes, len(name), 0, 0, 0, 0,
                       info.external_attr, info.header_offset) + name


class Entries:
    """The entries of an open archive, by name; `used` tells which were read."""

    def __init__(self, z: zipfile.ZipFile, source: str, data: mmap.mmap) -> None:
        self.source = source
        self.used: set[str] = set()
        self._data = memoryview(data)
        self._infos = _check_directory(z, source, len(data))

    def data(self, name: str) -> memoryview:
        """Return the bytes of an entry where the file is mapped, its checksum verified. Raise CheckError where it is missing. What is
        written to them does not reach the file."""
        if name not in self._infos:
            raise CheckError(f"this artifact has no {name}; compile the model again", source=self.source)
        self.used.add(name)
        info = self._infos[name]
        start = info.header_offset + LOCAL_BYTES
        signature, name_bytes, extra_bytes = struct.unpack("<4s22x2H", self._data[info.header_offset:start])
        if signature != b"PK\3\4" or self._data[start:start + name_bytes] != name.encode():
            raise ValueError(f"{name} is not where the directory says")
        start += name_bytes + extra_bytes
        part = self._data[start:start + info.file_size]
        if len(part) != info.file_size or zlib.crc32(part) != info.CRC:
            raise ValueError(f"{name} does not hold the {info.file_size:,} bytes that its checksum is of")
        return part

    def text(self, name: str) -> str:
        """Return the text of an entry. Raise CheckError where it is too large, ValueError where it is no UTF-8."""
        if name in self._infos and self._infos[name].file_size > TEXT_LIMIT_BYTES:
            raise CheckError(f"{name} is larger than {TEXT_LIMIT_BYTES:,} bytes, the most that is read as text", source=self.source)
        return str(self.data(name), "utf-8")

    def json(self, name: str) -> Any:
        """Return the JSON value of an entry."""
        try:
            return json.loads(self.text(name))
        except RecursionError:
            raise ValueError(f"{name} is nested too deeply") from None

    def check_all_used(self) -> None:
        """Raise CheckError where the archive holds what its manifest does not name."""
        if rest := sorted(set(self._infos) - self.used):
            raise CheckError(f"this artifact holds {rest[0]}, which its manifest does not name", source=self.source)


@contextmanager
def open_file(path: str | Path) -> Iterator[Entries]:
    """Yield the entries of a file while it is open. Every fault of the file is raised as an error of one sentence."""
    check_file(path, "a compiled model")
    try:
        with open(path, "rb") as f, zipfile.ZipFile(f) as z:
            yield Entries(z, str(path), mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY))
    except OSError as e:
        raise BackendError(f"cannot read {path}: {reason(e)}") from e
    except DAMAGE as e:
        words = (str(e) or type(e).__name__).splitlines()[0][:200]
        if isinstance(e, zipfile.BadZipFile) and not os.path.getsize(path):
            raise CheckError("the file is empty; aoec compile makes an .aoec artifact of an ONNX model", source=str(path)) from e
        if str(path).endswith(".onnx"):
            raise CheckError("by its name this is no compiled model, which is wanted here; aoec compile makes one of an ONNX model",
                             source=str(path)) from e
        raise CheckError(f"this is no whole .aoec artifact ({words}); compile the model again", source=str(path)) from e


def _check_directory(z: zipfile.ZipFile, source: str, size_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """Return the directory by name. Raise CheckError where an entry is not one that aoec writes."""
    infos = z.infolist()
    faults = [f"it has {len(infos):,} entries of at most {ENTRY_LIMIT:,}"] if len(infos) > ENTRY_LIMIT else []
    seen: set[str] = set()
    for info in infos[:ENTRY_LIMIT]:
        faults += [f"entry {info.filename[:80]!r} {fault}" for fault in _entry_faults(info, seen)][:1]
        seen.add(info.filename)
    if not faults and sum(i.file_size for i in infos) > size_bytes:
        faults.append("its entries claim more bytes than the file has")
    for fault in faults:
        raise CheckError(f"this is no .aoec artifact: {fault}", source=source)
    return {i.filename: i for i in infos}


def _entry_faults(info: zipfile.ZipInfo, seen: set[str]) -> list[str]:
    checks = {
        "is none of an artifact's": not NAMES.fullmatch(info.filename),
        "stands there twice": info.filename in seen,
        "is compressed or encrypted; an artifact's entries are stored": info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1,
        "claims another size than it has": info.file_size != info.compress_size,
    }
    return [fault for fault, holds in checks.items() if holds]


# ---------------------------------------------------------------- arrays

def array_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """Return the header of a .npy file. The elements are little-endian and row-major. Types that NumPy does not have (bfloat16) are stored
    as unsigned integers."""
    out = io.BytesIO()
    plain = np.dtype(f"<u{dtype.itemsize}") if dtype.kind == "V" else dtype.newbyteorder("<")
    npy.write_array_header_1_0(out, {"descr": npy.dtype_to_descr(plain), "fortran_order": False, "shape": shape})
    return out.getvalue()


def array_bytes(data: memoryview, name: str) -> memoryview:
    """Return the elements' bytes of a .npy file. Raise ValueError where the header does not describe exactly what follows it."""
    f = io.BytesIO(data[:HEADER_LIMIT_BYTES])
    if npy.read_magic(f) != (1, 0):
        raise ValueError(f"{name} is not of array format 1.0")
    shape, fortran, dtype = npy.read_array_header_1_0(f, max_header_size=HEADER_LIMIT_BYTES)
    count = 1
    for extent in shape:
        count *= extent
    if dtype.kind not in "fiub" or fortran or any(e < 0 for e in shape) or count * dtype.itemsize != len(data) - f.tell():
        raise ValueError(f"{name} declares {shape} of {dtype} and holds {len(data) - f.tell():,} bytes")
    return data[f.tell():]
