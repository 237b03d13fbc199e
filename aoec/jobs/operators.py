"""A graph of one operator from its name and sizes, so that a kernel can be studied without a model."""
from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import numpy as np

from aoec.base.errors import ParseError
from aoec.ir.graph import Graph, OpNode, Tensor

SIZE_LIMIT = 1 << 20
WORD = re.compile(r"\s*(?:([A-Za-z_]\w*)(?:\s*=\s*(\d+))?|([(),]))")
REQUIRED = {"matmul": ("m", "k", "n"), "conv2d": ("n", "c", "h", "w", "co", "kh", "kw")}
OPTIONAL = {"matmul": {}, "conv2d": {"stride": 1, "pad": 0, "dilation": 1}}
FLAGS = ("fp16", "fp32", "relu", "bias")


@dataclass(frozen=True)
class Call:
    """`conv2d(n=1, c=64, ..., fp16, relu)` taken apart."""

    name: str
    sizes: dict[str, int]
    flags: frozenset[str]

    @property
    def dtype(self) -> str:
        return "fp32" if "fp32" in self.flags else "fp16"


def graph_of(text: str) -> tuple[Graph, dict[str, np.ndarray]]:
    """A graph with the one operator, and zeros for its constants (a schedule depends on shapes only)."""
    call = parse_call(text)
    return {"matmul": _matmul, "conv2d": _conv2d}[call.name](call)


def parse_call(text: str) -> Call:
    """The call that the text spells; ParseError with the place where it does not."""
    words = _words(text)
    name, at = words[0][0], words[0][2]
    if name not in REQUIRED:
        raise _error(text, at, f"unknown operator {name}; known: {', '.join(REQUIRED)}")
    sizes, flags = dict(OPTIONAL[name]), set()
    for word, value, at in words[1:]:
        if value is None:
            if word not in FLAGS:
                raise _error(text, at, f"unknown flag {word}; known: {', '.join(FLAGS)}")
            flags.add(word)
        else:
            sizes[word] = _size(text, name, word, value, at)
    missing = [r for r in REQUIRED[name] if r not in sizes]
    if missing:
        raise _error(text, len(text.rstrip()) - 1, f"{name} needs {', '.join(f'{m}=...' for m in missing)} too")
    if {"fp16", "fp32"} <= flags:
        raise _error(text, 0, "fp16 and fp32 exclude each other")
    return Call(name, sizes, frozenset(flags))


def _words(text: str) -> list[tuple[str, str | None, int]]:
    """(word, value or None, position) of the name and each argument; the shape `name(word, ...)` is checked here."""
    out: list[tuple[str, str | None, int]] = []
    expected: tuple[str, ...] = ("name",)
    at = 0
    follow: dict[str, tuple[str, ...]] = {"name": ("(",), "(": ("name",), ",": ("name",), ")": ()}
    while text[at:].strip():
        match = WORD.match(text, at)
        kind = (match[3] or "name") if match else ""
        start = at + len(text[at:]) - len(text[at:].lstrip())
        if match is None or kind not in expected:
            raise _error(text, start, f"expected {_human(expected)}")
        if kind == "name":
            out.append((match[1], match[2], start))
        expected = (",", ")") if kind == "name" and len(out) > 1 else follow[kind]
        at = match.end()
    if expected:
        raise _error(text, len(text), f"expected {_human(expected)}")
    return out


def _human(expected: tuple[str, ...]) -> str:
    return " or ".join("a name" if e == "name" else f"'{e}'" for e in expected) or "nothing more"


def _size(text: str, operator: str, word: str, value: str, at: int) -> int:
    known = REQUIRED[operator] + tuple(OPTIONAL[operator])
    if word not in known:
        raise _error(text, at, f"{operator} has no size {word}; it has {', '.join(known)}")
    if not (word == "pad" or int(value) > 0) or int(value) > SIZE_LIMIT:
        raise _error(text, at, f"{word} must lie between 1 and {SIZE_LIMIT:,}")
    return int(value)


def _error(text: str, at: int, message: str) -> ParseError:
    return ParseError(message, text, 1, at + 1, "operator")


def _matmul(call: Call) -> tuple[Graph, dict[str, np.ndarray]]:
    s = call.sizes
    tensors = [Tensor("a", call.dtype, (s["m"], s["k"])), _zeros("b", call.dtype, (s["k"], s["n"])),
               _zeros("bias", "fp32", (s["n"],)), Tensor("y", call.dtype, (s["m"], s["n"]))]
    return _assemble(call, "gemm" if "bias" in call.flags else "matmul", tensors, ())


def _conv2d(call: Call) -> tuple[Graph, dict[str, np.ndarray]]:
    s = call.sizes
    ho, wo = ((s[x] + 2 * s["pad"] - s["dilation"] * (s["k" + x] - 1) - 1) // s["stride"] + 1 for x in ("h", "w"))
    if ho < 1 or wo < 1:
        raise ParseError(f"the filter {s['kh']}x{s['kw']} does not fit the image {s['h']}x{s['w']} with pad {s['pad']}", source="operator")
    tensors = [Tensor("x", call.dtype, (s["n"], s["c"], s["h"], s["w"])), _zeros("w", call.dtype, (s["co"], s["c"], s["kh"], s["kw"])),
               _zeros("bias", "fp32", (s["co"],)), Tensor("y", call.dtype, (s["n"], s["co"], ho, wo))]
    attributes = (("stride", (s["stride"],) * 2), ("pad", (s["pad"],) * 4), ("dilation", (s["dilation"],) * 2), ("group", 1))
    return _assemble(call, "conv2d", tensors, attributes)


def _assemble(call: Call, op: str, tensors: list[Tensor], attributes: tuple) -> tuple[Graph, dict[str, np.ndarray]]:
    if "bias" not in call.flags:
        tensors = [t for t in tensors if t.name != "bias"]
    out = tensors[-1]
    nodes = [OpNode(call.name, op, tuple(t.name for t in tensors[:-1]), (out.name,), attributes)]
    if "relu" in call.flags:
        tensors.append(Tensor("z", out.dtype, out.shape))
        nodes.append(OpNode("relu", "relu", (out.name,), ("z",)))
    weights = {t.name: np.zeros(t.shape, np.float32 if t.dtype == "fp32" else np.float16) for t in tensors if t.data}
    return Graph(call.name, (tensors[0].name,), (tensors[-1].name,), tuple(tensors), tuple(nodes)), weights


def _zeros(name: str, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """A constant of zeros, with the hash of its bytes."""
    size_bytes = int(np.prod(shape)) * (4 if dtype == "fp32" else 2)
    if size_bytes > 1 << 30:
        raise ParseError(f"the constant {name} would have {size_bytes:,} bytes; at most {1 << 30:,} are allowed here", source="operator")
    return Tensor(name, dtype, shape, data=hashlib.sha256(bytes(size_bytes)).hexdigest())
