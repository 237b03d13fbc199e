"""A program as a module of HIVM: one function for each kind of core, with its addresses, flags, loops, slots and cores.

Before the lines of an instruction comes a comment with the instruction as the program states it. A loop has such a comment, too. So a
message of a verifier about a line can be reported for an instruction (report.py).
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from aoec.base.errors import CapacityError, CheckError, UnsupportedError
from aoec.base.text import plural
from aoec.hivm import copies, cube, vector
from aoec.hivm.body import Body
from aoec.hivm.cube import (
    INSIDE,
    LOADS,
    PRODUCTS,
    ROWS,
    ZEROS,
    Loads,
    Product,
    defer_release,
    guards_of,
    instructions,
    is_inside,
    product_of,
    reach_of,
    sum_of,
    sums_up,
    write_product,
)
from aoec.hivm.report import MARK
from aoec.hivm.site import Site
from aoec.hivm.views import ADDRESS_SPACES, Base
from aoec.hivm.words import table
from aoec.ir.index import DTYPES, Expr, Int, evaluate, variables
from aoec.ir.program import Advance, CrossSet, CrossWait, For, Instr, Item, Program, Ref, SetFlag, Space, Stream, Tensor, WaitFlag
from aoec.ir.rewrite import holes
from aoec.ir.text.show import show
from aoec.ir.text.simplify import Scope
from aoec.target.isa.instructions import FRACTAL_BYTES
from aoec.target.machine import Machine

FUNCTIONS: dict[str, Callable[[Site], None]] = {**vector.FUNCTIONS, **copies.FUNCTIONS, **cube.FUNCTIONS}
FAMILY = "family_2201"
OTHER_FAMILIES = ("family_3510", "family_m100", "family_m200", "family_c100", "family_m300")  # which extend it too
CORES = {"aic": ("AIC", "CUBE"), "aiv": ("AIV", "VECTOR")}
EVENTS = 8  # ids of a flag that have a name



def write_module(program: Program, machine: Machine) -> str:
    """Return the module of a filled program; UnsupportedError names the instruction that the words of HIVM do not carry, and says why."""
    if holes(program):
        raise CheckError(f"program {program.name} has open holes {', '.join(f'?{h}' for h in holes(program))}; "
                         "fill them before it is written")
    files = {origin.rpartition("/")[2].removesuffix(".toml") for origin in machine.merged.origins.values()}
    if FAMILY not in files or not files.isdisjoint(OTHER_FAMILIES):
        raise UnsupportedError(f"aoec writes HIVM for product 2201 (Ascend910B and 910_93), and {machine.name} is none of it")
    kinds = tuple(sorted(s.core for s in program.streams))
    if len(set(kinds)) != len(kinds) or not set(kinds) <= CORES.keys():
        raise UnsupportedError(f"program {program.name} runs on cores {', '.join(kinds)}; HIVM text is written for aic, aiv, or one of "
                               "each")
    writers = [_Function(program, machine, s) for s in program.streams]
    functions = [line for w in writers for line in w.write()]
    head = f'module attributes {{hacc.target = #hacc.target<"{machine.name}">}} {{'
    return "\n".join([*_head(program, machine, writers), head, *functions, "}"]) + "\n"


def cores_of(stream: Stream) -> int:
    """Return cores that a stream runs on."""
    return prod(int(evaluate(extent, {})) for _, extent in stream.grid)


def _head(program: Program, machine: Machine, writers: Sequence[_Function]) -> list[str]:
    """Return what the text is, what is lost in it, and what is unknown of it."""
    blocks = min(cores_of(s) for s in program.streams)
    used = dict.fromkeys(word for w in writers for word in w.used)
    out = [f"// Program {program.name} as HIVM for {machine.name}; {plural(blocks, 'block')}.",
           "// Addresses, flags, loops, slots and cores are those of the program. It can be verified by the vendor's compiler front half "
           f"({table().wheel}).",
           "// It has never run on an NPU. Lost, or not known:",
           "//   Masks and repeats are shapes of views; the tile library of the compiler makes its own instructions of them."]
    out += [f"//   {table().words[word].lost}" for word in used if table().words[word].lost]
    if any(reach_of(s.body) for s in program.streams):
        out.append("//   Where the rows of an image are no whole fractals, each 16 of k are a product of their own, which reads on behind "
                   "the image.")
    if uncached := [t.name for t in program.tensors if t.uncached]:
        out.append(f"//   The program keeps {', '.join(uncached)} out of L2, and the text does not say so.")
    return list(dict.fromkeys(out))


@dataclass
class _Function:
    """The function of a stream in the making."""

    program: Program
    machine: Machine
    stream: Stream
    body: Body = field(default_factory=Body)
    scope: Scope = field(default_factory=Scope)
    path: list[For] = field(default_factory=list)
    used: dict[str, None] = field(default_factory=dict)
    zeros: Base | None = None
    room_at: int = 0  # byte of UB behind all buffers

    def __post_init__(self) -> None:
        self.buffers: dict[str, Tensor | Space] = {t.name: t for t in self.program.tensors}
        self.buffers |= {s.name: s for s in self.program.spaces}
        self.loads = Loads(self.buffers, guards_of(self.stream.body))
        self.is_mixed = len(self.program.streams) > 1
        self.bases: dict[str, Base] = {}
        self.kept = self._counters_in_text()

    def write(self) -> list[str]:
        """Return the lines of the function."""
        body, stream = self.body, self.stream
        name = self.program.name + (f"_mix_{stream.core}" if self.is_mixed else "")
        ffts = body.name("ffts") if self.is_mixed else ""
        arguments = [f"{ffts}: i64 {{hacc.arg_type = #hacc.arg_type<ffts_base_address>}}"] if ffts else []
        for t in self.program.tensors:
            self.bases[t.name] = Base(body.name(t.name), t.dtype, max(prod(int(evaluate(d, {})) for d in t.shape), 1), "GM")
            arguments.append(f"{self.bases[t.name].value}: {self.bases[t.name].type}")
        spaces = self.declare_spaces()
        if ffts:
            body.line(f"hivm.hir.set_ffts_base_addr {ffts}")
            self.ffts = ffts
        self.grid()
        for counter, depth in stream.counters:
            self.scope.variable(counter, 0, self.scope.most(depth) - 1)
            body.vars[counter] = body.constant(0)
        self.items(self.defer(stream.body))
        body.line("hivm.hir.pipe_barrier[<PIPE_ALL>]")
        body.line("return")
        core, _ = CORES[stream.core]
        attributes = ["hacc.entry", "hacc.function_kind = #hacc.function_kind<DEVICE>", f"hacc.block_dim = {cores_of(stream)} : i64",
                      f"hivm.func_core_type = #hivm.func_core_type<{core}>"]
        attributes += ["hivm.part_of_mix", 'mix_mode = "mix"'] if self.is_mixed else []
        return [f"  func.func @{name}({', '.join(arguments)})", f"      attributes {{{', '.join(attributes)}}} {{",
                *body.head(), *spaces, *body.lines, "  }"]

    # ------------------------------------------------------------ memory, cores

    def declare_spaces(self) -> list[str]:
        """Return lines that say the buffers which the text names, at the program's addresses, and zeros in L1 where a bias needs them."""
        body, named = self.body, {v.buffer for i in instructions(self.stream.body) for _, v in i.fields if isinstance(v, Ref)}
        out, ends, read_on = [], dict[str, int](), reach_of(self.stream.body)
        for s in self.program.spaces:
            if s.name not in named or s.scope not in ADDRESS_SPACES:
                continue
            address, size, depth = (int(evaluate(e, {})) for e in (s.address, s.size_bytes, s.depth))
            reach = size * depth + (FRACTAL_BYTES if s.name in read_on else 0)
            if address + reach > self.machine.scope(s.scope).size_bytes:
                raise CapacityError(f"{s.name} ends less than {FRACTAL_BYTES} bytes before {s.scope} does, and mmadL1 reads whole fractals")
            self.bases[s.name] = Base(body.name(s.name), s.dtype, reach // DTYPES[s.dtype], s.scope)
            out.append(self.declare(self.bases[s.name], address))
            ends[s.scope] = max(ends.get(s.scope, 0), address + size * depth)
        self.room_at = -(-ends.get("UB", 0) // 32) * 32
        rows = max((-(-self.most_rows(i) // ROWS) * ROWS for i in instructions(self.stream.body) if i.op == "mmad_bias"), default=0)
        if rows:
            dtype = next(self.buffers[r.buffer].dtype for i in instructions(self.stream.body) if i.op == "mmad_bias"
                         and isinstance(r := i["a"], Ref))
            at, size = -(-ends.get("L1", 0) // 512) * 512, rows * 32
            if at + size > self.machine.scope("L1").size_bytes:
                raise CapacityError(f"mmad_bias lays its bias down by a product of zeros, which takes {size:,} bytes of L1 besides the "
                                    f"buffers, and program {self.program.name} leaves "
                                    f"{self.machine.scope('L1').size_bytes - at:,}; a smaller tile leaves more")
            self.zeros = Base(body.name(ZEROS), dtype, size // DTYPES[dtype], "L1")
            out.append(self.declare(self.zeros, at))
            number = body.number(Int(0), dtype)
            body.line(f"hivm.hir.vbrc ins({number} : {self.zeros.type.partition('x')[2].partition(',')[0]}) "
                      f"outs({self.zeros.value} : {self.zeros.type})")
            body.line("hivm.hir.pipe_barrier[<PIPE_ALL>]")
        return out

    def declare(self, base: Base, address: int) -> str:
        """Return the line that says where a buffer lies."""
        return f"    {base.value} = hivm.hir.pointer_cast({self.body.constant(address, 'i64')}) : {base.type}"

    def most_rows(self, item: Instr) -> int:
        """Return the most rows that a product of a tile in L0C can have."""
        dst = item["dst"]
        assert isinstance(dst, Ref)
        space, n = self.buffers[dst.buffer], item["n"]
        assert isinstance(space, Space)
        if isinstance(item["m"], Int):
            return item["m"].value
        columns = n.value if isinstance(n, Int) else ROWS
        return int(evaluate(space.size_bytes, {})) // (max(columns, ROWS) * DTYPES[space.dtype])

    def grid(self) -> None:
        """Write the axes of the grid as values. The index of a core is row-major."""
        body = self.body
        block = body.value("hivm.hir.get_block_idx -> i64", "block_i64")
        others = [cores_of(s) for s in self.program.streams if s is not self.stream]
        if self.is_mixed and cores_of(self.stream) == 2 * others[0]:
            number, sub = body.constant(2, "i64"), body.value("hivm.hir.get_sub_block_idx -> i64", "sub_block_i64")
            block = body.value(f"arith.addi {body.value(f'arith.muli {block}, {number} : i64')}, {sub} : i64")
        elif self.is_mixed and 2 * cores_of(self.stream) != others[0] and cores_of(self.stream) != others[0]:
            raise UnsupportedError(f"program {self.program.name} has {cores_of(self.stream)} and {others[0]} cores; a kernel of both has "
                                   "one or two vector cores for each cube core")
        body.vars["block of a launch"] = body.value(f"arith.index_cast {block} : i64 to index", "block")
        rest = 1
        for axis, extent in reversed(self.stream.grid):
            size = int(evaluate(extent, {}))
            self.scope.variable(axis, 0, size - 1)
            found = body.vars["block of a launch"]
            found = body.value(f"arith.divui {found}, {body.constant(rest)} : index", axis) if rest > 1 and size > 1 else found
            if size > 1 and rest * size < cores_of(self.stream):
                found = body.value(f"arith.remui {found}, {body.constant(size)} : index", axis)
            body.vars[axis] = found if size > 1 else body.constant(0)
            rest *= size

    def _counters_in_text(self) -> frozenset[str]:
        """Return counters that the text needs: not those of slots of L0."""
        names: set[str] = set()

        def add(e: Expr) -> None:
            names.update(variables(e))

        def walk(items: Sequence[Item]) -> None:
            for item in items:
                if isinstance(item, For):
                    add(item.trips)
                    walk(item.body)
                elif isinstance(item, (CrossSet, CrossWait)) or isinstance(item, (SetFlag, WaitFlag)) and not is_inside(item):
                    add(item.id)
                elif isinstance(item, Instr):
                    for name, value in item.fields:
                        if isinstance(value, Ref):
                            add(value.offset)
                            if not (item.op in LOADS and name == "dst" or item.op in PRODUCTS and name != "dst"):
                                add(value.slot)
                        else:
                            add(value)
        walk(self.stream.body)
        return frozenset(names & {c for c, _ in self.stream.counters})

    # ------------------------------------------------------------ items

    def items(self, items: Sequence[Item]) -> None:
        """Write the lines of a body."""
        depths: Mapping[str, Expr] = dict(self.stream.counters)
        for item in items:
            if isinstance(item, For):
                self.loop(item)
                continue
            self.loads.note(item, self.scope)
            if isinstance(item, Instr):
                self.instruction(item)
            elif isinstance(item, Advance):
                if item.counter in self.kept:
                    now = self.body.vars[item.counter]
                    more = self.body.value(f"arith.addi {now}, {self.body.constant(1)} : index")
                    self.body.vars[item.counter] = self.body.value(
                        f"arith.remui {more}, {self.body.index(depths[item.counter])} : index", item.counter)
            elif isinstance(item, (SetFlag, WaitFlag)):
                if (item.source, item.target) not in INSIDE:
                    self.flag(item)
            else:
                self.cross_flag(item)

    def defer(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return a body in which buffers in L1 are given back where mmadL1 has read them."""
        return defer_release(items, self.loads.guards, self.scope) if self.loads.guards else items

    def loop(self, loop: For) -> None:
        """Write a loop. A loop that adds up products becomes one product, and a loop that mmadL1 does on its own is left out."""
        if loop.trips == Int(0):
            return
        self.scope.variable(loop.var, 0, max(self.scope.most(loop.trips) - 1, 0))
        if sums_up(loop) and (product := self.sum(loop)) is not None:
            self.product(product)
            return
        body = self.body
        if is_inside(loop) and not any(a.counter in self.kept for a in _advances(loop.body)):
            self.path.append(loop)
            self.items(loop.body)
            self.path.pop()
            return
        var = body.name(loop.var)
        outer = body.vars.get(loop.var)
        moved = [c for c, _ in self.stream.counters if c in self.kept and any(a.counter == c for a in _advances(loop.body))]
        given = {c: body.name(c) for c in moved}
        made = body.name(f"{loop.var}_end") if moved else ""
        start = f"scf.for {var} = {body.constant(0)} to {body.index(loop.trips)} step {body.constant(1)}"
        if moved:
            start = (f"{made}{f':{len(moved)}' if len(moved) > 1 else ''} = {start} iter_args("
                     + ", ".join(f"{given[c]} = {body.vars[c]}" for c in moved) + f") -> ({', '.join('index' for _ in moved)})")
        with body.region(f"{start} {{  // for {loop.var} in {show(loop.trips)}"):
            body.vars[loop.var] = var
            body.vars.update(given)
            self.path.append(loop)
            self.items(self.defer(loop.body))
            self.path.pop()
            if moved:
                body.line(f"scf.yield {', '.join(body.vars[c] for c in moved)} : {', '.join('index' for _ in moved)}")
        for at, c in enumerate(moved):
            body.vars[c] = f"{made}#{at}" if len(moved) > 1 else made
        if outer is not None:
            body.vars[loop.var] = outer
        self.loads.check_loop(loop)

    def sum(self, loop: For) -> Product | None:
        """Return the one product that a loop adds up; None where its turns are products of their own."""
        kept = replace(self.loads, found={k: [*v] for k, v in self.loads.found.items()}, used={*self.loads.used},
                       released={**self.loads.released}, advanced={**self.loads.advanced})
        if any(a.counter in self.kept for a in _advances(loop.body)):
            return None
        self.path.append(loop)
        found: Product | None = None
        for item in loop.body:
            if isinstance(item, Instr) and item.op in PRODUCTS:
                self.loads.place += 1
                found = product_of(self.site(item), self.loads, self.path)
            elif isinstance(item, For) and sums_up(item):
                self.scope.variable(item.var, 0, max(self.scope.most(item.trips) - 1, 0))
                found = self.sum(item)
                if found is None:
                    break
            elif isinstance(item, For):
                self.scope.variable(item.var, 0, max(self.scope.most(item.trips) - 1, 0))
                self.path.append(item)
                self.items(item.body)
                self.path.pop()
            else:
                self.items([item])
        self.path.pop()
        found = found and sum_of(found, loop, self.scope)
        if found is None:
            self.loads = kept
        else:
            self.loads.check_loop(loop)
        return found

    def product(self, product: Product) -> None:
        """Write the lines of a product."""
        item = product.site.item
        self.used.setdefault(item.op)
        self.body.line(f"{MARK} {show(item)}")
        write_product(product, self.zeros)

    def instruction(self, item: Instr) -> None:
        """Write the lines of an instruction, or keep it for the product that it is part of."""
        site, word = self.site(item), table().words[item.op]
        if word.lacks:
            raise site.refusal(word.lacks)
        if word.types and site.dtype("dst") not in word.types:
            raise site.refusal(f"its op takes {', '.join(word.types)}, and not {site.dtype('dst')}")
        if item.op in LOADS:
            self.loads.add(site, self.path)
        elif item.op in PRODUCTS:
            self.product(product_of(site, self.loads, self.path))
        else:
            self.used.setdefault(item.op)
            self.body.line(f"{MARK} {show(item)}")
            FUNCTIONS[item.op](site)

    def site(self, item: Instr) -> Site:
        """Return the instruction with what is known where it stands."""
        return Site(item, self.body, self.buffers, self.bases, self.scope, self.room_at, self.machine.scope("UB").size_bytes)

    # ------------------------------------------------------------ flags

    def flag(self, item: SetFlag | WaitFlag) -> None:
        """Write the line of a flag."""
        number = f"<EVENT_ID{item.id.value}>" if isinstance(item.id, Int) and item.id.value < EVENTS else self.body.wide(item.id)
        word = "set_flag" if isinstance(item, SetFlag) else "wait_flag"
        self.body.line(f"hivm.hir.{word}[{_pipe(item.source)}, {_pipe(item.target)}, {number}]  {MARK} {show(item)}")

    def cross_flag(self, item: CrossSet | CrossWait) -> None:
        """Write the line of a flag between cores. It names the pipe that sets the flag and the pipe that waits for it."""
        _, core = CORES[self.stream.core]
        there = self.other_pipe(item)
        number = str(item.id.value) if isinstance(item.id, Int) else self.body.wide(item.id)
        if isinstance(item, CrossSet):
            self.body.line(f"hivm.hir.sync_block_set[<{core}>, {_pipe(item.pipe)}, {_pipe(there)}] flag = {number} ffts_base_addr = "
                           f"{self.ffts}  {MARK} {show(item)}")
        else:
            self.body.line(f"hivm.hir.sync_block_wait[<{core}>, {_pipe(there)}, {_pipe(item.pipe)}] flag = {number}  {MARK} {show(item)}")

    def other_pipe(self, item: CrossSet | CrossWait) -> str:
        """Return the pipe at the other end of a flag between cores; UnsupportedError where several are."""
        name = item.to if isinstance(item, CrossSet) else item.source
        other = next(s for s in self.program.streams if s.name == name)
        wanted = CrossWait if isinstance(item, CrossSet) else CrossSet
        ends = [i for i in _all(other.body) if isinstance(i, wanted)]
        pipes = {i.pipe for i in ends if i.id == item.id} or {i.pipe for i in ends}
        if len(pipes) != 1:
            raise UnsupportedError(f"{show(item)} is not carried by the words of HIVM: sync_block names the pipe at the other end, and "
                                   f"{'none' if not pipes else 'several'} can be there")
        return pipes.pop()


def _pipe(name: str) -> str:
    """Return a pipe as HIVM calls it."""
    return f"<{table().pipes[name]}>"


def _all(items: Sequence[Item]) -> Iterator[Item]:
    for item in items:
        if isinstance(item, For):
            if item.trips != Int(0):
                yield from _all(item.body)
        else:
            yield item


def _advances(items: Sequence[Item]) -> list[Advance]:
    """Return the steps of counters in a body."""
    return [i for i in _all(items) if isinstance(i, Advance)]
