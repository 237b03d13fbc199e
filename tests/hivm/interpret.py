"""Runs the HIVM texts that aoec writes on arrays: one op after the other, each by what its name says, core by core.

It reads the text and nothing else, so that a wrong address, view, loop or slot shows in the values. Flags are bits: a set of a bit that is
set, and a wait for one that is not, are errors; so are bits left at the end. It is no model of the chip, and its ops are NumPy's.
"""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "ui8": np.uint8, "i16": np.int16,
          "i32": np.int32, "ui16": np.uint16, "ui32": np.uint32, "i64": np.int64, "ui64": np.uint64}
SIZES = {"ub": 192 << 10, "cbuf": 512 << 10, "cc": 128 << 10}
TYPE = re.compile(r"memref<((?:\d+x|\?x)*)(\w+)(?:, strided<\[(.*?)\], offset: (.*?)>)?, #hivm\.address_space<(\w+)>>")
BINARY = {"vadd": np.add, "vsub": np.subtract, "vmul": np.multiply, "vdiv": np.divide, "vmax": np.maximum, "vmin": np.minimum,
          "vand": np.bitwise_and, "vor": np.bitwise_or, "vshl": np.left_shift, "vshr": np.right_shift}
UNARY = {"vexp": np.exp, "vln": np.log, "vsqrt": np.sqrt, "vrsqrt": lambda x: 1 / np.sqrt(x), "vrec": lambda x: 1 / x, "vabs": np.abs,
         "vrelu": lambda x: np.maximum(x, 0), "vnot": np.invert}
ARITH = {"addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b, "floordivsi": lambda a, b: a // b,
         "minsi": min, "maxsi": max, "ceildivsi": lambda a, b: -(-a // b), "remui": lambda a, b: a % b, "divui": lambda a, b: a // b,
         "andi": lambda a, b: a and b, "ori": lambda a, b: a or b, "xori": lambda a, b: a != b}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal}


@dataclass
class Core:
    """Memories and flags of a core, and its place in the launch."""

    block: int
    sub: int
    spaces: dict[str, np.ndarray] = field(default_factory=lambda: {n: np.full(s, 0xFF, np.uint8) for n, s in SIZES.items()})
    flags: Counter[tuple[str, ...]] = field(default_factory=Counter)


def functions(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """Name of a function -> names of its tensors, lines of its body."""
    out, lines = {}, text.splitlines()
    for at, line in enumerate(lines):
        if found := re.match(r"  func\.func @(\w+)\((.*)\)$", line):
            end = next(i for i in range(at, len(lines)) if lines[i] == "  }")
            plain = [re.sub(r"\s*//.*", "", x).strip() for x in lines[at + 2:end]]
            out[found[1]] = (re.findall(r"(%\w+): memref", found[2]), [x for x in plain if x])
    return out


def launch(text: str, tensors: Sequence[np.ndarray], blocks: int) -> None:
    """Runs a text on flat arrays, which it writes."""
    found = functions(text)
    for block in range(blocks):
        cross: Counter[str] = Counter()
        runs = []
        vectors = 2 if len(found) == 2 and _dim(text, "_mix_aiv") == 2 * _dim(text, "_mix_aic") else 1
        for name, (arguments, lines) in found.items():
            for sub in range(vectors if name.endswith("_mix_aiv") else 1):
                core = Core(block, sub)
                env: dict[str, Any] = dict(zip(arguments, tensors))
                to = "CUBE" if name.endswith("_mix_aiv") else "VECTOR"
                runs.append((core, Run(lines, env, core, cross, to, vectors).region(0)))
        rest, before = list(runs), None
        while rest and before != (len(rest), +cross):  # until all have ended, or none goes on
            before = (len(rest), +cross)
            rest = [(core, run) for core, run in rest if next(run, run) is not run]
        assert not rest, "cores wait for each other"
        for core, _ in runs:
            assert not +core.flags, f"flags are left set: {core.flags}"


def _dim(text: str, ending: str) -> int:
    found = re.search(rf"{ending}\(.*\n.*hacc\.block_dim = (\d+)", text)
    assert found
    return int(found[1])


@dataclass
class Run:
    """A function on a core. `cross`: counting flags of its group, by direction, number and receiver."""

    lines: list[str]
    env: dict[str, Any]
    core: Core
    cross: Counter[str]
    to: str
    vectors: int
    adds: bool = False

    def value(self, word: str) -> Any:
        return self.env[word] if word.startswith("%") else int(word)

    def end(self, at: int) -> int:
        """The line of the } that closes the region behind a line."""
        depth = 0
        for i in range(at, len(self.lines)):
            depth += self.lines[i].endswith("{") - (self.lines[i] == "}")
            if depth == 0:
                return i
        raise AssertionError("a region has no end")

    def region(self, at: int) -> Iterator[None]:
        """Runs lines from `at` to the end of their region; the value is what they yield."""
        while at < len(self.lines):
            line = self.lines[at]
            if line in ("}", "return"):
                return []
            if line.startswith("scf.yield"):
                return [self.value(w) for w in re.findall(r"%[\w#]+", line)]
            if "scf.for" in line:
                f = re.match(r"(?:(%\w+)(?::\d+)? = )?scf\.for (%\w+) = (%\w+) to (%\w+) step (%\w+)(?: iter_args\((.*?)\))?", line)
                assert f, line
                carried = [p.split(" = ") for p in f[6].split(", ")] if f[6] else []
                now = [self.value(v) for _, v in carried]
                for i in range(self.value(f[3]), self.value(f[4]), self.value(f[5])):
                    self.env[f[2]] = i
                    self.env.update({n: v for (n, _), v in zip(carried, now)})
                    now = yield from self.region(at + 1)
                if f[1]:
                    self.env.update({f"{f[1]}#{i}": v for i, v in enumerate(now)} | {f[1]: now[0]})
                at = self.end(at)
            elif line.startswith("scf.if"):
                if self.value(line.split()[1]):
                    yield from self.region(at + 1)
                at = self.end(at)
            elif "sync_block_wait" in line:
                number = self.value(line.split("flag = ")[1].split()[0])
                me = "VECTOR" if self.to == "CUBE" else "CUBE"
                need = [f"{me}{number}.{s}" for s in ([self.core.sub] if me == "VECTOR" else range(self.vectors))]
                while not all(self.cross[n] for n in need):
                    yield
                self.cross.subtract(need)
                self.cross["passed"] += 1
            else:
                self.line(line)
            at += 1
        return []

    def line(self, line: str) -> None:
        made, _, rest = line.partition(" = ") if line.startswith("%") else ("", "", line)
        word = rest.split()[0].split("(")[0].split("[")[0]
        if word == "arith.constant":
            self.env[made] = _constant(rest)
        elif word == "hivm.hir.pointer_cast":
            address, shape, dtype, space = self.value(rest.split("(")[1].split(")")[0]), *_shape(rest)
            size = int(np.prod(shape)) * np.dtype(DTYPES[dtype]).itemsize
            assert address + size <= SIZES[space], line
            self.env[made] = self.core.spaces[space][address:address + size].view(DTYPES[dtype])
        elif word == "memref.reinterpret_cast":
            self.env[made] = self.cut(rest)
        elif word == "memref.load":
            base, index = re.findall(r"%\w+", rest)[:2]
            self.env[made] = int(self.env[base][self.env[index]])
        elif word.startswith("arith."):
            names = re.findall(r"%[\w#]+", rest)
            given = [self.value(n) for n in names]
            if word in ("arith.index_cast", "arith.index_castui"):
                self.env[made] = int(given[0])
            elif word == "arith.cmpi":
                self.env[made] = bool(COMPARE[rest.split()[1].strip(",")](*given))
            elif word == "arith.select":
                self.env[made] = given[1] if given[0] else given[2]
            else:
                self.env[made] = ARITH[word[6:]](*given)
        elif word == "hivm.hir.get_block_idx":
            self.env[made] = self.core.block
        elif word == "hivm.hir.get_sub_block_idx":
            self.env[made] = self.core.sub
        elif word in ("hivm.hir.set_flag", "hivm.hir.wait_flag"):
            source, target, number = re.findall(r"<(\w+)>|(%\w+)", rest.split("[", 1)[1])[:3]
            key = (source[0], target[0], str(self.env[number[1]]) if number[1] else number[0].removeprefix("EVENT_ID"))
            self.core.flags[key] += 1 if word.endswith("set_flag") else -1
            assert self.core.flags[key] in (0, 1), f"flag {key} is set twice, or waited for in vain"
        elif word == "hivm.hir.sync_block_set":
            number = self.value(rest.split("flag = ")[1].split()[0])
            names = [f"{self.to}{number}.{s}" for s in (range(self.vectors) if self.to == "VECTOR" else [self.core.sub])]
            self.cross.update(names)
        elif word == "hivm.hir.set_atomic":
            self.adds = "<add>" in rest
        elif word not in ("hivm.hir.pipe_barrier", "hivm.hir.set_ffts_base_addr"):
            self.op(word.removeprefix("hivm.hir."), rest)

    def cut(self, rest: str) -> np.ndarray:
        """A view of a buffer, within it."""
        base = self.env[rest.split()[1]]
        f = re.search(r"offset: \[(.*?)\], sizes: \[(.*?)\], strides: \[(.*?)\] : ", rest)
        assert f
        offset, sizes, strides = ([int(self.value(x)) for x in f[i].split(", ")] for i in (1, 2, 3))
        if min(sizes) > 0:
            last = offset[0] + sum((n - 1) * s for n, s in zip(sizes, strides))
            assert offset[0] >= 0 and last < len(base), f"{rest}: element {last} of {len(base)}"
        return as_strided(base[offset[0]:], sizes, [s * base.itemsize for s in strides])

    def op(self, word: str, rest: str) -> None:
        f = re.search(r"ins\((.*?) : (.*?)\) outs\((%\w+) : ", rest)
        assert f, rest
        names, out = f[1].split(", "), self.env[f[3]]
        ins = [self.value(n) for n in names]
        dtype = out.dtype
        with np.errstate(all="ignore"):
            if word in ("load", "copy", "store"):
                out[...] = out + ins[0] if "atomic = <add>" in rest else ins[0]
            elif word == "vbrc":
                out[...] = ins[0]
            elif word in BINARY:
                out[...] = BINARY[word](ins[0], np.asarray(ins[1], ins[0].dtype)).astype(dtype)
            elif word in UNARY:
                out[...] = UNARY[word](ins[0]).astype(dtype)
            elif word == "vcast":
                out[...] = _cast(ins[0].copy(), dtype, re.search(r"round_mode<(\w+)>", rest)[1])  # type: ignore[index]
            elif word == "vreduce":
                how = {"sum": np.add, "max": np.maximum, "min": np.minimum}[rest.split("<")[1].split(">")[0]]
                out[...] = how.reduce(ins[0].astype(np.float32), axis=-1, keepdims=True).astype(dtype)
            elif word == "vtranspose":
                out[...] = ins[0].copy().transpose([int(x) for x in re.search(r"permutation = \[(.*?)\]", rest)[1].split(", ")])  # type: ignore[index]
            elif word == "nd2nz":
                rows, cols = ins[0].shape
                columns = np.zeros((rows, out.shape[0] * out.shape[3]), dtype)
                columns[:, :cols] = ins[0]
                for r in range(rows):
                    out[:, r // 16, r % 16, :] = columns[r].reshape(out.shape[0], out.shape[3])
            elif word == "mmadL1":
                self.product(ins, out, rest)
            elif word == "fixpipe":
                m, n = out.shape
                flat = ins[0].transpose(1, 2, 0, 3).reshape(ins[0].shape[1] * 16, -1)[:m, :n]
                flat = np.maximum(flat, 0) if "NORMAL_RELU" in rest else flat
                out[...] = out + flat.astype(dtype) if self.adds else flat.astype(dtype)
            else:
                raise AssertionError(f"{word} is not known here")

    def product(self, ins: Sequence[Any], out: np.ndarray, rest: str) -> None:
        """mmadL1: with a bias no side is turned, as the wheel lowers it."""
        a, b, init, m, k, n = ins[:6]
        turned_a, turned_b = "a_transpose" in rest and len(ins) == 6, "b_transpose" in rest and len(ins) == 6
        left = (a.transpose(0, 2, 1, 3) if turned_a else a.transpose(1, 2, 0, 3)).reshape(a.shape[0 if turned_a else 1] * 16, -1)
        left = left.T if turned_a else left
        right = b.transpose(1, 2, 0, 3).reshape(b.shape[1] * 16, -1)
        right = right.T if turned_b else right
        sums = left[:m, :k].astype(np.float32) @ right[:k, :n].astype(np.float32)
        c = out.transpose(1, 2, 0, 3)
        flat = np.zeros((out.shape[1] * 16, out.shape[0] * 16), np.float32)
        flat[:m, :n] = sums + (0 if init else c.reshape(flat.shape)[:m, :n]) + (ins[6][:n] if len(ins) > 6 else 0)
        kept = c.reshape(flat.shape).copy()
        kept[:m, :n] = flat[:m, :n]
        out[...] = kept.reshape(out.shape[1], 16, out.shape[0], 16).transpose(2, 0, 1, 3)


def _constant(rest: str) -> Any:
    word = rest.split()[1]
    if word in ("true", "false"):
        return word == "true"
    kind = rest.split(" : ")[1]
    if word.startswith("0x"):
        size = np.dtype(DTYPES[kind]).itemsize
        return np.array([int(word, 16)], f"u{size}").view(DTYPES[kind])[0]
    return DTYPES[kind](float(word)) if kind in ("f32", "f16", "bf16") else int(word)


def _shape(text: str) -> tuple[tuple[int, ...], str, str]:
    found = TYPE.search(text)
    assert found, text
    return tuple(int(x) for x in found[1].split("x")[:-1]), found[2], found[5]


def _cast(x: np.ndarray, dtype: np.dtype[Any], mode: str) -> np.ndarray:
    if x.dtype.kind == "i" or dtype.kind not in "iu" and x.dtype != dtype:
        return x.astype(dtype)
    how = {"rint": np.rint, "trunc": np.trunc, "floor": np.floor, "ceil": np.ceil}[mode](x.astype(np.float64))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        how = np.clip(np.nan_to_num(how), limits.min, limits.max)
    return how.astype(dtype)
