"""The source of a kernel: what a program does on each core, line by line.

Addresses, flags, loops, slots and cores are the program's; its loops and buffers keep their names. One kernel a source, its kind said. What
no call of the product does is refused with a sentence that names the instruction, the product and the page.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from aoec.ascendc import casts, copies, cube, vector
from aoec.ascendc.calls import DEFAULT_RELEASE, Release, check_call, product_of, refusal, release_of, table
from aoec.ascendc.casts import LEAST_BYTES, MOST_BYTES, WORDS_BYTES
from aoec.ascendc.copies import READS_ON, moves_bytes
from aoec.ascendc.expressions import CPP_TYPES, HELPERS, expr, number
from aoec.ascendc.flags import FIRST_OF_SYNC_ALL, axes, cores, cross_flag, flag, kernel_type
from aoec.ascendc.function import DEFAULTS, REALS, ROOM, Site, Writer, scalar_dtype
from aoec.ascendc.names import Names
from aoec.ascendc.vector import TURNABLE, check_lanes, parts_of
from aoec.base.errors import CapacityError, CheckError, UnsupportedError
from aoec.base.text import plural
from aoec.ir.index import DTYPES, Expr, Float, Int, evaluate, multiple
from aoec.ir.program import Advance, CrossSet, CrossWait, For, Instr, Item, Program, Ref, SetFlag, Space, Stream, Tensor, WaitFlag
from aoec.ir.rewrite import holes
from aoec.ir.text.show import show
from aoec.target.isa.instructions import BLOCK_BYTES, INSTRUCTIONS, REPEAT_BYTES, pixel_bytes
from aoec.target.legality.bursts import needed_side
from aoec.target.machine import Machine

FUNCTIONS: dict[str, Writer] = {**copies.FUNCTIONS, **cube.FUNCTIONS, **vector.FUNCTIONS, **casts.FUNCTIONS}
POSITIONS = {"L1": "A1", "L0A": "A2", "L0B": "B2", "L0C": "CO1", "BT": "C2", "FB": "C2PIPE2GM", "UB": "VECCALC"}
READERS = {"load_l0b": "B1", "load_bt": "C1", "load_fb": "C1"}  # what reads of L1 says at which position a buffer lies there
ROWS_AT_ONCE = 16  # of packed rows: so many end on a block
# bytes that the calls of one repeat take besides
LEAST_ROOM = {"copy_ub_gm": BLOCK_BYTES, "vconv": WORDS_BYTES, "vbrcb": 512, "vnchwconv": 512, "vcmax": 128, "vcmin": 128}
PARTS, PARTS_BYTES = "parts", 512  # the name of the room for parts of blocks that go to GM, and its most bytes
BLOCKS_PAGE = "mv/DataCopy（GM与UB高维切分数据搬运）"
MODES = ("LT", "GT", "EQ", "LE", "GE", "NE")
BY_ADDRESS = """#ifdef AOEC_TBUF  // tensors in one buffer a memory, for releases and products that make none by address
#define AOEC_TENSOR(type, name, position, memory, address, elements) LocalTensor<type> name = memory.GetWithOffset<type>(elements, address)
#else
#define AOEC_TENSOR(type, name, position, memory, address, elements) LocalTensor<type> name(TPosition::position, address, elements)
#endif"""


@dataclass(frozen=True)
class Kernel:
    """A source, and what its launch needs to know of it. `notes`: where the chip may give other values than the model."""

    name: str
    source: str
    kind: str
    blocks: int
    target: str
    product: str
    release: str
    program: Program
    reads_on: int  # bytes behind a tensor that the kernel may read, and write back as they were
    notes: tuple[str, ...]


def write_kernel(program: Program, machine: Machine, release: str = DEFAULT_RELEASE) -> Kernel:
    """Return the kernel of a filled program for the product of a machine, spelt for a release of CANN; UnsupportedError says what no call
    does."""
    if holes(program):
        raise CheckError(f"program {program.name} has open holes {', '.join(f'?{h}' for h in holes(program))}; "
                         "fill them before it is written")
    return _Writer(program, machine, product_of(machine), release_of(release)).write()


@dataclass
class _Writer:
    """One source in the making: the functions and helpers that its lines call, and the words that it uses."""

    program: Program
    machine: Machine
    product: str
    release: Release
    names: Names = field(default_factory=Names)
    helpers: dict[str, None] = field(default_factory=dict)
    functions: dict[str, None] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)
    sides: dict[Instr, str] = field(default_factory=dict)  # of copies into GM, as bursts.py finds them

    def __post_init__(self) -> None:
        self.buffers: dict[str, Tensor | Space] = {t.name: t for t in self.program.tensors}
        self.buffers |= {s.name: s for s in self.program.spaces}

    def write(self) -> Kernel:
        kind, blocks = kernel_type(self.program, self.product)
        name = self.names.name("kernel", self.program.name)
        given = ", ".join(f"GM_ADDR {self.names.name('argument', f'{t.name}_gm')}" for t in self.program.tensors)
        for b in self.buffers.values():
            self.names.name("buffer", b.name)
        mixed = len(self.program.streams) > 1
        bodies = [self.stream(s, 2 if mixed else 1) for s in self.program.streams]
        self.check_reserved()
        lines = [f"    KERNEL_TASK_TYPE_DEFAULT({kind});"] if kind else []
        lines += self.globals()
        for s, body in zip(self.program.streams, bodies):
            lines += [f"    if {'ASCEND_IS_AIC' if s.core == 'aic' else 'ASCEND_IS_AIV'} {{", *body, "    }"] if mixed else body
        about = f"for {self.machine.name} (product {self.product}), spelt for CANN {self.release.name}; {plural(blocks, 'block')}"
        head = [f"// Kernel {name} {about}.",
                "// Addresses, flags, loops, slots and cores are those of the program that it was written from.",
                '#include "kernel_operator.h"', "", "using namespace AscendC;", ""]
        if not self.by_address():
            head += ["#define AOEC_TBUF", ""]
        head += [BY_ADDRESS, "", "namespace aoec {", ""]
        for definition in (*[HELPERS[h] for h in HELPERS_IN_ORDER if h in self.helpers], *self.functions):
            head += [definition, ""]
        text = [*head, "}  // namespace aoec", "", f'extern "C" __global__ __aicore__ void {name}({given})', "{", *lines,
                "    PipeBarrier<PIPE_ALL>();", "}"]
        reads_on = READS_ON if any(w.startswith(("copy_gm_ub", "copy_ub_gm")) for w in self.used) and not moves_bytes(self.product) else 0
        return Kernel(name, "\n".join(text) + "\n", kind, blocks, self.machine.name, self.product, self.release.name, self.program,
                      reads_on, self.notes())

    def by_address(self) -> bool:
        """Return whether tensors are made by address: the release can, the product too, and no call forbids it."""
        return self.release.static and self.product != "1001" and not any(self.product in table().calls[w].framework for w in self.used)

    def notes(self) -> tuple[str, ...]:
        """Return where its calls differ from the instructions, and what no page says about them."""
        rows = [table().calls[w] for w in sorted(self.used)]
        out = [f"{r.name} ({r.call}): {text}" for r in rows for text in (r.differs, r.unknown and f"unknown is {r.unknown}") if text]
        out += [f"{r.name} ({r.call}): {r.unlisted[self.product]}" for r in rows if self.product in r.unlisted]
        if uncached := [t.name for t in self.program.tensors if t.uncached]:
            out.append(f"the program keeps tensors out of L2, and the source does not say so: {', '.join(uncached)}")
        return tuple(out)

    # ------------------------------------------------------------ memory

    def globals(self) -> list[str]:
        """Return the tensors in GM."""
        out = []
        for t in self.program.tensors:
            name, kind = self.names.name("buffer", t.name), CPP_TYPES[t.dtype]
            out += [f"    GlobalTensor<{kind}> {name};",
                    f"    {name}.SetGlobalBuffer(reinterpret_cast<__gm__ {kind}*>({self.names.name('argument', f'{t.name}_gm')}));"]
        return out

    def spaces(self, stream: Stream) -> list[str]:
        """Return the buffers that a stream names, at the program's addresses, and room where its calls need some."""
        named = {v.buffer for i in _instructions(stream.body) for _, v in i.fields if isinstance(v, Ref)}
        mine = [s for s in self.program.spaces if s.name in named]
        ends: dict[str, int] = {}
        lines = []
        for s in mine:
            address, size, depth = (int(evaluate(e, {})) for e in (s.address, s.size_bytes, s.depth))
            ends[s.scope] = max(ends.get(s.scope, 0), address + size * depth)
            more = self.reads_on(s, stream)
            reach = size * depth + more
            if more and address + reach > self.ub_bytes():
                raise CapacityError(f"{s.name} ends less than {more} bytes before UB does, and vreducev2 (GatherMask) reads so far on")
            ends[s.scope] = max(ends[s.scope], address + reach)
            lines.append(f"AOEC_TENSOR({CPP_TYPES[s.dtype]}, {self.names.name('buffer', s.name)}, {self.position(s, stream)}, "
                         f"{self.names.name('memory', s.scope)}, {address}, {reach // DTYPES[s.dtype]});")
        for name in (PARTS, ROOM):
            if any(self.room_of(i) == name for i in _instructions(stream.body)):
                at, size = self.room(ends["UB"], name)
                ends["UB"] = at + size
                lines.append(f"AOEC_TENSOR(uint8_t, {self.names.name('room', name)}, VECCALC, {self.names.name('memory', 'UB')}, {at}, "
                             f"{size});")
        buffers = []
        for scope, end in ends.items():
            memory = self.names.name("memory", scope)
            buffers += [f"TBuf<TPosition::{POSITIONS[scope]}> {memory};", f"pipe.InitBuffer({memory}, {end});"]
        return ["#ifdef AOEC_TBUF", "TPipe pipe;", *buffers, "pipe.Destroy();", "#else", "InitSocState();", "#endif", *lines]

    def room_of(self, item: Instr) -> str:
        """Return the name of the room in UB that the calls of an instruction need; "" of none. What goes to GM in parts has its own, since
        the scalar unit and MTE3 come to it when the vector unit may be elsewhere."""
        site = self.site(item)
        return PARTS if site.is_ragged else ROOM if site.takes_room else ""

    def room(self, end: int, name: str) -> tuple[int, int]:
        """Return (address, bytes) of free room in UB behind all buffers, below what calls keep for themselves, for what calls need
        besides."""
        at = -(-end // 32) * 32
        size = (min(PARTS_BYTES if name == PARTS else MOST_BYTES, self.ub_bytes() - self.kept_bytes() - at)) // 32 * 32
        takers = [i for s in self.program.streams for i in _instructions(s.body) if self.room_of(i) == name]
        least = max((self.least_room(i) for i in takers), default=LEAST_BYTES)
        if size < least:
            said = ", ".join(f"{w} ({table().calls[w].call})" for w in dict.fromkeys(i.op for i in takers))
            raise CapacityError(f"{said} needs {least} bytes of UB besides the buffers, and program {self.program.name} leaves "
                                f"{max(size, 0)} before the {self.kept_bytes():,} that calls keep; a smaller tile leaves more")
        return at, size

    def least_room(self, item: Instr) -> int:
        """Return bytes of room that an instruction needs at least: of packed rows longer than a repeat, masks of 16 of them."""
        lanes, src_rep = (dict(item.fields).get(n) for n in ("lanes", "src_rep"))
        if item.op in LEAST_ROOM and self.site(item).takes_room:
            return LEAST_ROOM[item.op]
        if item.op != "vreducev2" or not self.site(item).takes_room:
            return LEAST_BYTES
        if not isinstance(lanes, Int) or not isinstance(src_rep, Int):
            raise refusal(item.op, self.product, "masks are laid out for lanes and src_rep that are known when the kernel is written")
        parts = parts_of(lanes.value, self.site(item).size("dst"), src_rep.value)
        if parts * ROWS_AT_ONCE * BLOCK_BYTES > MOST_BYTES:
            raise refusal(item.op, self.product, f"a row of {lanes.value} elements takes {parts} repeats, and masks are laid out for 8")
        return max(LEAST_BYTES, parts * ROWS_AT_ONCE * BLOCK_BYTES) if parts > 1 else LEAST_BYTES

    def ub_bytes(self) -> int:
        """Return bytes of UB: those of the chip, where the machine's are less some that calls of several instructions need."""
        return table().ub.get(self.product, self.machine.scope("UB").size_bytes)

    def kept_bytes(self) -> int:
        """Return bytes at the end of UB that the calls of this kernel keep for themselves."""
        words = {i.op for s in self.program.streams for i in _instructions(s.body)}
        return max((table().calls[w].reserves.get(self.product, 0) for w in words), default=0)

    def check_reserved(self) -> None:
        """Raise CapacityError where a buffer lies in what a call keeps for itself."""
        keeps = self.kept_bytes()
        for s in self.program.spaces:
            end = int(evaluate(s.address + s.size_bytes * s.depth, {}))
            if keeps and s.scope == "UB" and end > self.ub_bytes() - keeps:
                raise CapacityError(f"{s.name} ends at byte {end:,} of UB, and calls of this kernel keep the last {keeps:,} bytes: "
                                    + ", ".join(sorted(w for w in self.used if self.product in table().calls[w].reserves)))

    def reads_on(self, space: Space, stream: Stream) -> int:
        """Return bytes that a call reads behind a buffer, and leaves out: where masks say what is kept of rows, all but a block of a
        repeat."""
        packed = any(i.op == "vreducev2" and self.site(i).takes_room and isinstance(i["src"], Ref) and i["src"].buffer == space.name
                     for i in _instructions(stream.body))
        return REPEAT_BYTES - BLOCK_BYTES if packed else 0

    def position(self, space: Space, stream: Stream) -> str:
        """Return where a buffer lies, as Ascend C says it: in L1 by what reads it."""
        if space.scope == "L1":
            for i in _instructions(stream.body):
                src = dict(i.fields).get("src")
                if i.op in READERS and isinstance(src, Ref) and src.buffer == space.name:
                    return READERS[i.op]
        return POSITIONS[space.scope]

    # ------------------------------------------------------------ lines

    def stream(self, stream: Stream, depth: int) -> list[str]:
        """Return the body of a kernel, or of the part of one kind of core."""
        body = list(self.items(stream.body, stream, depth))
        head = [*axes(stream, lambda n: self.names.name("var", n))]
        head += [f"int64_t {self.names.name('var', c)} = 0;" for c, _ in stream.counters]
        if self.product == "2201" and any(i.op.startswith("mmad") and self.site(i).dtypes[1] == "fp32" for i in _instructions(stream.body)):
            head.append(f"{self.release.hf32_off};")
        indent = "    " * depth
        return [line if line.startswith("#") else indent + line for line in (*self.spaces(stream), *head)] + body

    def items(self, items: Sequence[Item], stream: Stream, depth: int) -> Iterator[str]:
        """Yield the lines of a body. A loop that runs not at all is left out."""
        indent, depths = "    " * depth, dict(stream.counters)
        for item in items:
            if isinstance(item, For):
                if item.trips == Int(0):
                    continue
                v = self.names.name("var", item.var)
                yield f"{indent}for (int64_t {v} = 0; {v} < {self.expr(item.trips, False)}; ++{v}) {{"
                yield from self.items(item.body, stream, depth + 1)
                yield f"{indent}}}"
            elif isinstance(item, Advance):
                c = self.names.name("var", item.counter)
                yield f"{indent}{c} = ({c} + 1) % {self.expr(depths[item.counter], False)};"
            elif isinstance(item, (SetFlag, WaitFlag)):
                yield indent + flag(item, stream, self.product, self.expr(item.id))
            elif isinstance(item, (CrossSet, CrossWait)):
                if isinstance(item.id, Int) and item.id.value >= FIRST_OF_SYNC_ALL:
                    raise UnsupportedError(f"flag {item.id.value} between cores belongs to SyncAll on product {self.product}")
                yield indent + cross_flag(item, self.expr(item.id))
            else:
                yield indent + self.instruction(item)

    def instruction(self, item: Instr) -> str:
        """Return the line of an instruction: a call of the function of its name, with its fields in order."""
        word, site = INSTRUCTIONS[item.op], self.site(item)
        check_call(item.op, self.product, site.dtypes[0])
        self.check_fields(item, site)
        self.functions.setdefault(FUNCTIONS[item.op](site))
        self.used.setdefault(item.op)
        item = _turn_sources(item)
        args = [self.ref(v) for o in word.operands if isinstance(v := item[o.name], Ref)]
        numbers = [(n, item[n]) for n in site.fields]
        while numbers and numbers[-1][0] in DEFAULTS and numbers[-1][1] == Int(0) and not site.takes_room:
            numbers.pop()
        for name, value in numbers:
            assert isinstance(value, Expr)
            if name in REALS:
                args.append(number(value, scalar_dtype(site), self.need))
            elif name == "mode":
                args.append(f"CMPMODE::{MODES[int(evaluate(value, {}))]}")
            else:
                args.append(self.expr(value))
        if site.takes_room:
            args.append(self.names.name("room", self.room_of(item)))
        return f"aoec::{site.name}({', '.join(args)});"

    def site(self, item: Instr) -> Site:
        """Return the properties of an instruction for which its function is written."""
        dtypes = tuple(self.buffers[v.buffer].dtype for o in INSTRUCTIONS[item.op].operands if isinstance(v := item[o.name], Ref))
        atomic = "atomic" in INSTRUCTIONS[item.op].fields() and item["atomic"] != Int(0)
        ragged = item.op == "copy_ub_gm" and not moves_bytes(self.product) and any(
            multiple(e) % BLOCK_BYTES for n in ("length", "dst_gap") if isinstance(e := item[n], Expr))
        padded = item.op == "copy_gm_ub" and item["pad"] != Int(0)
        return Site(item.op, dtypes, self.product, self.release, atomic, padded, ragged, self.side(item) if ragged else "")

    def side(self, item: Instr) -> str:
        """Return what is written back with bursts into GM that are shorter than a block. Raise UnsupportedError where none is known to be
        right."""
        if item not in self.sides:
            stream = next(s for s in self.program.streams if item in _instructions(s.body))
            try:
                self.sides[item] = needed_side(self.program, stream, item, cores(stream))
            except ValueError as e:
                length = item["length"]
                assert isinstance(length, Expr)
                raise UnsupportedError(f"{item.op} (DataCopy) moves whole blocks on product {self.product}, length = {show(length)} is not "
                                       f"of them, and {e}; page {table().page(BLOCKS_PAGE)}") from None
        return self.sides[item]

    def check_fields(self, item: Instr, site: Site) -> None:
        """Raise UnsupportedError where a field of the instruction has no place in its call on this product."""
        if site.atomic and item["atomic"] != Int(1):
            raise UnsupportedError(f"{item.op}: whether it adds must be known when the kernel is written; atomic = {show(item['atomic'])}")
        if site.atomic and site.dtypes[0] not in table().atomics[self.product]:
            known = ", ".join(table().atomics[self.product])
            raise UnsupportedError(f"{item.op} (SetAtomicAdd) adds {known} on product {self.product}, and not "
                                   f"{site.dtypes[0]}; page {table().page(table().atomics_page)}")
        if site.is_ragged and site.atomic:
            raise UnsupportedError(f"{item.op} (DataCopy) moves whole blocks on product {self.product}, and what is added to GM is not "
                                   f"known to be of them; page {table().page(BLOCKS_PAGE)}")
        if item.op == "load3d" and self.product == "1001":
            self.check_image(item, site)
        if "lanes" in site.fields:
            lanes = item["lanes"]
            check_lanes(site, isinstance(lanes, Expr) and multiple(lanes) % 2 == 0)
        if item.op == "vdup" and site.size("dst") == 8:
            scalar = item["scalar"]
            if not isinstance(scalar, (Int, Float)) or scalar.value not in (0, -1):
                raise UnsupportedError("vdup (Duplicate) has no elements of 8 bytes, and aoec writes those whose halves are alike: 0 and "
                                       f"-1; page {table().page('vec/数据填充/Duplicate')}")

    def check_image(self, item: Instr, site: Site) -> None:
        """Raise UnsupportedError where the call of 16 rows takes no such channels or filter."""
        channels, filters = item["channels"], (item["filter_h"], item["filter_w"])
        assert isinstance(channels, Expr)
        value = channels.value if isinstance(channels, Int) else 0
        if pixel_bytes(value, site.size("src")) < BLOCK_BYTES or not isinstance(channels, Int) and multiple(channels) % site.block("src"):
            raise refusal(item.op, self.product, f"pixels of {show(channels)} channels, of which a block holds several, are not written: "
                          "which taps a repeat takes then is on no page")
        if any(not isinstance(f, Int) or f.value > 255 for f in filters):
            raise refusal(item.op, self.product, "its filter has at most 255 rows and columns")

    def ref(self, ref: Ref) -> str:
        """Return an operand: an element of a tensor, or of a slot."""
        name, b = self.names.name("buffer", ref.buffer), self.buffers[ref.buffer]
        offset = ref.offset
        if isinstance(b, Space) and ref.slot != Int(0):
            offset = ref.slot * (int(evaluate(b.size_bytes, {})) // DTYPES[b.dtype]) + offset
        return f"{name}[{self.expr(offset)}]"

    def expr(self, e: Expr, alone: bool = True) -> str:
        """Return an index expression in C++, outside the namespace of the helpers."""
        return expr(e, lambda n: self.names.name("var", n), self.need, "aoec::", alone)

    def need(self, helper: str) -> None:
        """Add this helper to the source, once."""
        self.helpers.setdefault(helper)


HELPERS_IN_ORDER = ("of_bits", "floor_div", "ceil_div", "floor_mod", "least", "most", "magnitude")


def _instructions(items: Sequence[Item]) -> Iterator[Instr]:
    """Yield every instruction of a body that runs at all, in order."""
    for item in items:
        if isinstance(item, For):
            if item.trips != Int(0):
                yield from _instructions(item.body)
        elif isinstance(item, Instr):
            yield item


def _turn_sources(item: Instr) -> Instr:
    """Return a sum that every repeat adds to: the chip allows it where the target is the second source."""
    f = dict(item.fields)
    if item.op not in TURNABLE or f["dst"] != f["src0"] or f["dst"] == f["src1"] or f["dst_rep"] != Int(0) or f["src0_rep"] != Int(0):
        return item
    other = {"src0": "src1", "src1": "src0", "src0_blk": "src1_blk", "src1_blk": "src0_blk", "src0_rep": "src1_rep", "src1_rep": "src0_rep"}
    return Instr(item.op, tuple((k, f[other.get(k, k)]) for k, _ in item.fields))
