"""Single instructions between guard pages: a program that fuzzes the interpreter, and ends by a signal where a byte is touched that is not its own.

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

import numpy as np
from aoec.kernels import tile

from aoec.ir.index import DTYPES, Expr, Float, Int, Var
from aoec.ir.program import For, Instr, Program, Ref, Space, Stream, Tensor
from aoec.simulate.memory import Memory, Place
from aoec.simulate.values import MAX_FIELDS, NO_TICKS, _encode, run_groups
from aoec.target.instructions import ADDED, CASTS, INSTRUCTIONS, Instruction, check_dtypes

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
            for last in {src, "int32", "int64", "fp32"}:
                given = (dst, *[src] * (len(word.operands) - 1))[:len(word.operands)]
                given = (*given[:2], last) if len(given) == 3 else given
                try:
                    check_dtypes(word, list(given))
                except Exception:
                    continue
                yield given


class Case:
    """One word with some dtypes, whose fields and places are numbers in arrays that are drawn again and again."""

    def __init__(self, word: Instruction, dtypes: tuple[str, ...], random: np.random.Generator) -> None:
        self.word, self.dtypes, self.random = word, dtypes, random
        tensors, spaces, fields = [], [], []
        for o, dtype in zip(word.operands, dtypes):
            if o.scopes[0] == "GM":
                tensors.append(Tensor(o.name, dtype, (Int(PAGES * PAGE // DTYPES[dtype]),), "output" if o.writes else "input"))
            else:
                spaces.append(Space(o.name, dtype, o.scopes[0], Int(0), Int(PAGES * PAGE), Int(1)))
            self.names = [o.name for o in word.operands]
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
        self.memory.mem_bytes = self.room_own.region.bytes.size
        self.memory.spans = np.zeros((0, 2), np.int64)
        self.arrays = Arrays(self.room_own.region.bytes)
        for buffer in self.buffers.values():
            buffer[:] = random.integers(0, 256, buffer.size, np.uint8)
        self.before = {name: b.copy() for name, b in self.buffers.items()}

    def _take_apart(self) -> None:
        """The code is the instruction alone; its variables are what the environment holds."""
        code, at = self.code, next(i for i, row in enumerate(self.code.code) if row[0] == tile.CODE_OPS.index("instr"))
        place = {name.partition(".")[2]: i for i, name in code.names.items()}
        self.place = {name: place[name] for name in self.variables}
        rows = np.zeros((2, 6), np.int64)
        rows[0], rows[1, 0] = code.code[at], tile.CODE_OPS.index("halt")
        code.code, code.starts = rows, np.zeros(1, np.int64)

    def draw(self, n_low: int, n_high: int) -> int:
        """A field: mostly small or at an end, sometimes beyond."""
        r, kind = self.random, self.random.integers(0, 40)
        if kind == 0:
            return int(r.choice(WILD))
        if kind < 4:
            return n_high
        if kind < 10:
            return n_low
        return int(min(n_high, n_low + r.integers(0, int(r.choice((2, 4, 9, 17, 65))))))

    def once(self) -> str:
        """What became of one instruction: "" where it ran, else the kind of error."""
        r, word, code = self.random, self.word, self.code
        numbers = [n for n in word.numbers if not n.real]
        fields = [self.draw(n.low, n.high) for n in numbers]
        env = code.envs[0, 0]
        for n, v in zip(numbers, fields):
            env[self.place[f"f_{n.name}"]] = v
        reach = self.reaches(fields)
        for i, (o, dtype) in enumerate(zip(word.operands, self.dtypes)):
            size, align = DTYPES[dtype], int(code.operands[0, i, 4])
            depth = int(r.integers(1, 3))
            most = PAGES * PAGE // depth
            slot_bytes = int(r.integers(0, most // align + 1)) * align if r.integers(0, 2) else min(most, -(-max(reach[i], 1) // align) * align)
            slot_bytes = slot_bytes // size * size
            begin = self.base[o.name] + (0 if r.integers(0, 3) == 0 else (PAGES * PAGE - depth * slot_bytes) // 64 * 64)
            if r.integers(0, 2) and align <= size:  # ends at the forbidden page, at the byte
                begin = self.base[o.name] + PAGES * PAGE - depth * slot_bytes
            code.operands[0, i, 1:4] = begin, slot_bytes, depth
            room = (slot_bytes - reach[i]) // align * align // size
            kind = r.integers(0, 12)
            env[self.place[f"o_{o.name}"]] = (r.choice(WILD) if kind == 0 else 0 if kind < 4 else room if kind < 10 else
                                              room + 1 if kind == 10 else r.integers(0, PAGES * PAGE))
            slot = int(r.choice(WILD)) if r.integers(0, 40) == 0 else int(r.integers(0, depth))
            env[self.place[f"s_{o.name}"]] = slot
        code.scalars[0] = float(r.choice((0.0, 1.5, -3.0, 1e300, np.nan, np.inf, 70.0)))
        watch = (np.zeros(1, np.int64), np.array([10, 0]), 0)
        return ERRORS[int(run_groups(code, self.memory, self.arrays.take, 0, 1, watch, NO_TICKS)[0])]

    def reaches(self, fields: list[int]) -> list[int]:
        """Bytes that each operand touches, where the fields are in range."""
        values, dt = np.zeros(MAX_FIELDS, np.int64), self.code.dtypes[0]
        if any(not n.low <= v <= n.high for n, v in zip([n for n in self.word.numbers if not n.real], fields)):
            return [0] * 4
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
    count, seed, names = int(words[0]), int(words[1]), words[2:] or list(INSTRUCTIONS)
    assert set(ADDED) | {d for pair in CASTS for d in pair} <= set(DTYPES)
    for name in names:
        kinds = sorted(set(dtypes_of(INSTRUCTIONS[name])))
        ran = done = 0
        for i, dtypes in enumerate(kinds):
            case = Case(INSTRUCTIONS[name], dtypes, np.random.default_rng([seed, i]))
            for _ in range(-(-count // len(kinds))):
                print_last = f"{name} {dtypes}"
                ran, done = ran + (case.once() == ""), done + 1
            case.unchanged()
            del print_last
        print(name, ran, done, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
