"""Single instructions between guard pages: a program that ends by a signal where the interpreter touches a byte that is not its own.

Each operand has pages of its own, before and behind which the process may touch nothing, and so has each array that kernels work in. Fields
and places are drawn: ordinary, at the edge of what a slot holds, and wild. Whatever is drawn, the interpreter must either refuse it or stay
within the operand's slots; only a destination may change. `python guarded.py COUNT SEED [WORD ...]` prints, for each word, how many
instructions ran.
"""
from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from random import Random

import numpy as np
from aoec.kernels import tile

from aoec.base.errors import CheckError
from aoec.ir.index import DTYPES, Float, Int, Var
from aoec.ir.program import For, Instr, Program, Ref, Space, Stream, Tensor
from aoec.simulate.values.memory import Memory
from aoec.simulate.values.values import MAX_FIELDS, NO_TICKS, _encode, run_groups
from aoec.target.isa.instructions import INSTRUCTIONS, Instruction, check_dtypes

PAGE = mmap.PAGESIZE
PAGES = 16  # of a buffer
WILD = (-2**63, -2**62, -2**31 - 1, -1, 2**31, 2**32, 2**40, 2**61, 2**62, 2**63 - 512, 2**63 - 1)
ERRORS = tile.ERRORS
PROT_NONE = 0


class Region:
    """Bytes of which pages may be made untouchable."""

    def __init__(self, size: int) -> None:
        self.map = mmap.mmap(-1, size)
        self.bytes = np.frombuffer(self.map, np.uint8)
        self.address = self.bytes.ctypes.data

    def forbid(self, begin: int, size: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(self.address + begin), ctypes.c_size_t(size), PROT_NONE) == 0


class Room:
    """Buffers of PAGES pages each with a forbidden page on both sides, in one region."""

    def __init__(self, count: int) -> None:
        self.region = Region((count * (PAGES + 1) + 1) * PAGE)
        self.begins = [(i * (PAGES + 1) + 1) * PAGE for i in range(count)]
        for i in range(count + 1):
            self.region.forbid(i * (PAGES + 1) * PAGE, PAGE)

    def buffer(self, i: int) -> np.ndarray:
        return self.region.bytes[self.begins[i]:self.begins[i] + PAGES * PAGE]


class Arrays:
    """What kernels work in: each array ends at a forbidden page."""

    def __init__(self, memory: np.ndarray) -> None:
        self.known: dict[str, np.ndarray] = {"cores": memory}
        self.regions: list[Region] = []

    def take(self, name: str, size: int, dtype: type) -> np.ndarray:
        if name not in self.known:
            room = size * np.dtype(dtype).itemsize
            whole = -(-room // PAGE) * PAGE
            region = Region(whole + PAGE)
            region.forbid(whole, PAGE)
            self.regions.append(region)
            self.known[name] = region.bytes[whole - room:whole].view(dtype)
        return self.known[name][:size]


def dtypes_of(word: Instruction) -> Iterator[tuple[str, ...]]:
    """All dtypes of operands that a word takes, of those that share a source's dtype or are casts."""
    for dst in DTYPES:
        for src in DTYPES:
            for last in {src, "int32", "int64", "uint64", "fp32"}:
                given = (dst, *[src] * (len(word.operands) - 1))[:len(word.operands)]
                given = (*given[:2], last) if len(given) == 3 else given
                try:
                    check_dtypes(word, list(given))
                except CheckError:
                    continue
                yield given


class Case:
    """One word with some dtypes, whose fields and places are numbers in arrays that are drawn again and again."""

    def __init__(self, word: Instruction, dtypes: tuple[str, ...], seed: str) -> None:
        self.word, self.dtypes, self.random = word, dtypes, Random(seed)
        tensors, spaces, fields = [], [], []
        for o, dtype in zip(word.operands, dtypes):
            if o.scopes[0] == "GM":
                tensors.append(Tensor(o.name, dtype, (Int(PAGES * PAGE // DTYPES[dtype]),), "output" if o.writes else "input"))
            else:
                spaces.append(Space(o.name, dtype, o.scopes[0], Int(0), Int(PAGES * PAGE), Int(1)))
            fields.append((o.name, Ref(o.name, Var(f"o_{o.name}"), Var(f"s_{o.name}"))))
        fields += [(n.name, Float(1.0) if n.real else Var(f"f_{n.name}")) for n in word.numbers]
        item: For | Instr = Instr(word.name, tuple(fields))
        names: list[str] = [e.name for _, v in fields for e in ((v.offset, v.slot) if isinstance(v, Ref) else (v,)) if isinstance(e, Var)]
        for name in names:
            item = For(name, Int(2), (item,))
        self.program = Program("p", "toy", tuple(tensors), tuple(spaces), (Stream("s", "core", (), (), (item,)),))
        self.variables = names
        self.memory = Memory(self.program)
        self.code = _encode(self.program, self.memory)
        self._take_apart()
        self.room_gm, self.room_own = Room(max(1, len(tensors))), Room(max(1, len(spaces)))
        self.memory.gm, self.buffers = self.room_gm.region.bytes, {}
        self.base, i, j = {}, 0, 0
        for o in word.operands:
            room, n = (self.room_gm, i) if o.scopes[0] == "GM" else (self.room_own, j)
            self.base[o.name], self.buffers[o.name] = room.begins[n], room.buffer(n)
            i, j = i + (o.scopes[0] == "GM"), j + (o.scopes[0] != "GM")
        aligns = [int(self.code.operands[0, i, 4]) for i in range(len(word.operands))]
        self.operand_places = [(self.base[o.name], DTYPES[d], align, self.place[f"o_{o.name}"], self.place[f"s_{o.name}"])
                               for o, d, align in zip(word.operands, dtypes, aligns)]
        self.memory.mem_bytes = self.room_own.region.bytes.size
        self.memory.spans = np.zeros((0, 2), np.int64)
        self.arrays = Arrays(self.room_own.region.bytes)
        for buffer in self.buffers.values():
            buffer[:] = np.frombuffer(self.random.randbytes(buffer.size), np.uint8)
        self.before = {name: b.copy() for name, b in self.buffers.items()}

    def _take_apart(self) -> None:
        """The code is the instruction alone; its variables are what the environment holds."""
        code, at = self.code, next(i for i, row in enumerate(self.code.code) if row[0] == tile.CODE_OPS.index("instr"))
        place = {name.partition(".")[2]: i for i, name in code.names.items()}
        self.place = {name: place[name] for name in self.variables}
        self.numbers = [n for n in self.word.numbers if not n.real]
        self.field_places = [self.place[f"f_{n.name}"] for n in self.numbers]
        rows = np.zeros((2, 6), np.int64)
        rows[0], rows[1, 0] = code.code[at], tile.CODE_OPS.index("halt")
        code.code, code.starts = rows, np.zeros(1, np.int64)

    def field(self, low: int, high: int) -> int:
        """A field: mostly small or at an end, sometimes beyond."""
        r = self.random.random()
        if r < 0.01:
            return self.random.choice(WILD)
        if r < 0.08:
            return high
        if r < 0.25:
            return low
        if r < 0.4:
            return min(high, max(low, 16 * self.random.randrange(5)))
        return min(high, low + self.random.randrange(self.random.choice((2, 4, 9, 17, 65))))

    def fields(self) -> list[int]:
        """Those of a whole instruction; mostly such as the word's rules allow together."""
        out = [self.field(n.low, n.high) for n in self.numbers]
        at = {n.name: i for i, n in enumerate(self.numbers)}
        if self.random.random() < 0.2:
            return out
        if self.word.name == "load3d":
            for name in ("filter_h", "filter_w", "dilation_h", "dilation_w"):
                out[at[name]] = self.random.randrange(1, 4)
            out[at["k_start"]], out[at["k_size"]] = 32 * self.random.randrange(2), self.random.randrange(1, 65)
            out[at["channels"]] = self.random.choice((4, 16, 17, 40))
            out[at["pad_value"]] = self.random.randrange(-3, 4) if self.dtypes[1] == "int8" else 0
        if "src_rows" in at:
            out[at["src_rows"]] = max(out[at["m"]], out[at["src_rows"]])
            out[at["n"]] = out[at["n"]] // 32 * 32 if "_nz" in self.word.name else out[at["n"]]
        if "dst_rows" in at:
            out[at["dst_rows"]] = max(out[at["rows"]], out[at["dst_rows"]])
        return out

    def once(self) -> str:
        """What became of one instruction: "" where it ran, else the kind of error."""
        r, code, env, size_of_all = self.random, self.code, self.code.envs[0, 0], PAGES * PAGE
        fields = self.fields()
        for place, v in zip(self.field_places, fields):
            env[place] = v
        reach = self.reaches(fields)
        for i, (begin, size, align, offset_at, slot_at) in enumerate(self.operand_places):
            depth = r.randrange(1, 3)
            most = size_of_all // depth
            wanted = -(-max(reach[i], 1) // align) * align
            slot_bytes = (min(most, wanted) if r.random() < 0.7 else r.randrange(most // align + 1) * align) // size * size
            free = size_of_all - depth * slot_bytes
            # at the first byte behind a forbidden page; so that it ends before one, as near as 64 bytes or to the byte
            begin += r.choice((0, free // 64 * 64, free if align <= size else free // 64 * 64))
            row = code.operands[0, i]
            row[1], row[2], row[3] = begin, slot_bytes, depth
            room = (slot_bytes - reach[i]) // align * align // size
            kind = r.random()
            env[offset_at] = (r.choice(WILD) if kind < 0.03 else 0 if kind < 0.3 else room if kind < 0.93 else
                              room + 1 if kind < 0.97 else r.randrange(size_of_all))
            env[slot_at] = r.choice(WILD) if r.random() < 0.01 else r.randrange(depth)
        code.scalars[0] = r.choice((0.0, 1.5, -3.0, 1e300, np.nan, np.inf, 70.0))
        watch = (np.zeros(1, np.int64), np.array([10, 0]), 0)
        return ERRORS[int(run_groups(code, self.memory, self.arrays.take, 0, 1, watch, NO_TICKS)[0])]

    def reaches(self, fields: list[int]) -> list[int]:
        """Bytes that each operand touches, where the fields are in range."""
        if any(not n.low <= v <= n.high for n, v in zip(self.numbers, fields)):
            return [0] * 4
        values, dt = np.zeros(MAX_FIELDS, np.int64), self.code.dtypes[0]
        values[:len(fields)], reach = fields, np.zeros(4, np.int64)
        tile.reaches(tile.OPS.index(self.word.name), values, dt, reach)
        return reach.tolist()

    def unchanged(self) -> None:
        """All that is no destination holds what it held."""
        for o in self.word.operands:
            if not o.writes:
                assert np.array_equal(self.buffers[o.name], self.before[o.name]), f"{self.word.name} changes {o.name}"


def main(words: list[str]) -> None:
    """Prints for each word how many of its instructions ran, of how many."""
    count, seed, names = int(words[0]), words[1], words[2:] or list(INSTRUCTIONS)
    for name in names:
        kinds = sorted(set(dtypes_of(INSTRUCTIONS[name])))
        ran = done = 0
        for dtypes in kinds:
            case = Case(INSTRUCTIONS[name], dtypes, f"{seed} {name} {dtypes}")
            for _ in range(-(-count // len(kinds))):
                ran, done = ran + (case.once() == ""), done + 1
            case.unchanged()
        print(name, ran, done, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
