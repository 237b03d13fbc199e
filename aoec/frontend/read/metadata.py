"""Reads and writes an entry of an ONNX file's metadata without reading the model.

A message is a sequence of fields. Fields that are not asked for are skipped, or copied unchanged. Field numbers are those of onnx.proto.
"""
from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Union

from aoec.base.files.files import open_plain, write_whole

if TYPE_CHECKING:
    from onnx import ModelProto

METADATA = 14  # ModelProto.metadata_props
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # how a field is written
LIMIT_BYTES = 32 << 20  # of an entry that is read
PART_BYTES = 16 << 20  # that are copied at once
Data = Union[bytes, mmap.mmap]
Source = Union[str, Path, "ModelProto"]


def value(source: Source, key: str) -> str:
    """Return what a model's metadata say of a key. Return "" where they say nothing, or the file is no whole model, which its reader says
    better."""
    try:
        with bytes_of(source) as data:
            return next((text for _, _, name, text in entries(data) if name == key), "")
    except (OSError, ValueError, IndexError):
        return ""


def write(path: str | Path, source: Source, key: str, text: str) -> None:
    """Write the model to `path` with this entry in place of any other of the key, and otherwise unchanged. `path` may be the source's
    own."""
    with bytes_of(source) as data:
        left = [(start, stop) for start, stop, name, _ in entries(data) if name == key]
        kept = zip([0, *(stop for _, stop in left)], [*(start for start, _ in left), len(data)])
        entry = field(1, key.encode()) + field(2, text.encode())
        parts = (data[at:min(at + PART_BYTES, stop)] for start, stop in kept for at in range(start, stop, PART_BYTES))
        write_whole(path, lambda f: f.writelines(chain(parts, [field(METADATA, entry)])))


@contextmanager
def bytes_of(source: Source) -> Iterator[Data]:
    """Yield a model as a serialised message: its file, mapped into memory, or the serialisation of a model in memory."""
    if not isinstance(source, (str, Path)):
        yield source.SerializeToString()
        return
    with open_plain(source) as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def entries(data: Data) -> Iterator[tuple[int, int, str, str]]:
    """Yield (start, stop, key, value) of a model's metadata. ValueError or IndexError where the bytes are no message."""
    from onnx import StringStringEntryProto
    for number, start, inner, stop in fields(data):
        if number == METADATA and stop - inner <= LIMIT_BYTES:
            try:
                entry = StringStringEntryProto.FromString(bytes(data[inner:stop]))
            except Exception as e:  # protobuf's errors have no common root in all of its versions
                raise ValueError("no entry of metadata") from e
            yield start, stop, entry.key, entry.value


def fields(data: Data) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number, start, start of what it holds, stop) of the fields of a message."""
    at = 0
    while at < len(data):
        start = at
        tag, at = varint(data, at)
        inner, kind = at, tag & 7
        if kind == VARINT:
            _, at = varint(data, at)
        elif kind == BYTES:
            size, inner = varint(data, at)
            at = inner + size
        elif kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
        else:
            raise ValueError("no field of a message")
        if at > len(data):
            raise ValueError("a field that ends behind the message")
        yield tag >> 3, start, inner, at


def varint(data: Data, at: int) -> tuple[int, int]:
    """Return (a number of seven bits a byte, where it ends)."""
    out = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        out, at = out | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            return out, at
    raise ValueError("a number of more than ten bytes")


def field(number: int, held: bytes) -> bytes:
    """Return a field of bytes."""
    return encode_varint(number << 3 | BYTES) + encode_varint(len(held)) + held


def encode_varint(number: int) -> bytes:
    """Encode a number as a varint: seven bits a byte."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
