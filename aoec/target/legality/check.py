"""Whether a program is legal on a machine: limits and capacities (here), and the order of its accesses (hazard.py)."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from aoec.base.errors import CapacityError, CheckError
from aoec.base.text import nearest, quote_line
from aoec.ir.index import DTYPES, Expr, Float, Hole, Int, holes, variables
from aoec.ir.program import Advance, CrossSet, CrossWait, For, Instr, Item, Program, Ref, SetFlag, Space, Stream, Tensor, WaitFlag
from aoec.ir.text.show import show
from aoec.target.isa.instructions import INSTRUCTIONS, Instruction, Operand, check_dtypes
from aoec.target.legality.bursts import check_bursts
from aoec.target.legality.hazard import check_order
from aoec.target.legality.trace import line, value_of
from aoec.target.machine import Machine

MOST_TENSOR_BYTES = 1 << 44


def check(program: Program, machine: Machine) -> None:
    """Raise CheckError or CapacityError, with instruction, place and remedy, unless the program is legal.

    The program has no holes. First come checks of the text alone: names, dtypes, scopes, pipes, capacities. Then one core of every
    class is walked. Each of its accesses must lie in its slot and be ordered by flags (`check_order`).
    """
    _check_filled(program)
    names = _check_names(program)
    for t in program.tensors:
        _check_tensor(t)
    _check_spaces(program, machine)
    for stream in program.streams:
        _check_stream(program, stream, machine, names)
        _check_units(stream)
    for c in program.constraints:
        if not value(c.condition, {}, f"a requirement of program {program.name}"):
            raise CapacityError(f"program {program.name} breaks its own requirement {show(c.condition)}: {c.reason}")
    check_order(program, machine)
    if not machine.has("copy_ub_gm", parts=1):
        check_bursts(program)


def walk(body: tuple[Item, ...]) -> Iterator[Item]:
    """Yield every item of a body, in program order."""
    for item in body:
        yield item
        if isinstance(item, For):
            yield from walk(item.body)


def expressions(item: Item) -> list[Expr]:
    """Return the index expressions of an item, without its body."""
    if isinstance(item, For): return [item.trips]
    if isinstance(item, Advance): return []
    if isinstance(item, Instr):
        return [e for _, v in item.fields for e in ((v.offset, v.slot) if isinstance(v, Ref) else (v,))]
    return [item.id]


def _check_filled(program: Program) -> None:
    """Raise CheckError unless every size is a number, which the proof below needs."""
    exprs = [e for t in program.tensors for e in t.shape]
    exprs += [e for s in program.spaces for e in (s.address, s.size_bytes, s.depth)]
    exprs += [e for s in program.streams for _, e in (*s.grid, *s.counters)]
    exprs += [e for s in program.streams for i in walk(s.body) for e in expressions(i)] + [c.condition for c in program.constraints]
    still = sorted({name for e in exprs for name in holes(e)})
    if still:
        raise CheckError(f"program {program.name} has open holes {', '.join(show(Hole(n)) for n in still)}; fill them before it is checked")


def _check_names(program: Program) -> dict[str, Tensor | Space]:
    """Return tensors and spaces by name. Raise CheckError where a dtype is unknown, or where a name of one of them, or of a stream,
    occurs twice."""
    names: dict[str, Tensor | Space] = {}
    buffers: tuple[Tensor | Space, ...] = (*program.tensors, *program.spaces)
    for x in buffers:
        if x.name in names:
            raise CheckError(f"program {program.name} has two buffers named {x.name}")
        if x.dtype not in DTYPES:
            raise CheckError(f"{x.name} has the unknown dtype {x.dtype}; known are {', '.join(DTYPES)}")
        names[x.name] = x
    if len({s.name for s in program.streams}) < len(program.streams):
        raise CheckError(f"program {program.name} has two streams of one name")
    return names


def number(e: Expr, what: str) -> int:
    """Return the value of an expression that may name no variable."""
    if variables(e):
        raise CheckError(f"{what} is {show(e)}: it cannot depend on {', '.join(sorted(variables(e)))}")
    return int(value(e, {}, what))


def value(e: Expr, env: Mapping[str, int], what: str) -> Any:
    """Return the value of an expression. Raise CheckError that names the expression where there is none."""
    try:
        return value_of(e, env)
    except CheckError as error:
        raise CheckError(f"{what} is {quote_line(show(e))}: {error.message}") from None


def _check_tensor(t: Tensor) -> None:
    for d in t.shape:
        if number(d, f"a dimension of tensor {t.name}") < 1:
            raise CheckError(f"tensor {t.name} has a dimension of {show(d)}; every dimension is at least 1")
    size = prod(number(d, t.name) for d in t.shape) * DTYPES[t.dtype]
    if size > MOST_TENSOR_BYTES:
        raise CheckError(f"tensor {t.name} has {size:,} bytes; at most {MOST_TENSOR_BYTES:,} are taken")


def _check_spaces(program: Program, machine: Machine) -> None:
    """Raise CheckError or CapacityError unless scopes exist, addresses are aligned, and slots end inside their scope."""
    for s in program.spaces:
        scope = machine.scope(s.scope)
        address, size, depth = (number(e, f"a number of space {s.name}") for e in (s.address, s.size_bytes, s.depth))
        if address < 0 or size < 1 or depth < 1:
            raise CheckError(f"space {s.name} has address {address}, size {size} and depth {depth}; at least 0, 1 and 1 are needed")
        for value, what in ((address, "starts at"), (size if depth > 1 else 0, "has slots of")):
            if value % scope.align_bytes:
                raise CheckError(f"space {s.name} {what} {value:,} bytes; {s.scope} of {machine.name} is aligned to {scope.align_bytes}")
        if address + size * depth > scope.size_bytes:
            raise CapacityError(
                f"{s.scope} of {machine.name} has {scope.size_bytes:,} bytes; space {s.name} ends at {address + size * depth:,} "
                f"({depth} x {size:,} from {address:,}): use a smaller tile or fewer slots")


def _check_stream(program: Program, stream: Stream, machine: Machine, names: dict[str, Tensor | Space]) -> None:
    kind = machine.core(stream.core)
    cores = prod(number(e, f"axis {a} of stream {stream.name}") for a, e in stream.grid)
    if cores < 1:
        raise CheckError(f"stream {stream.name} runs on {cores} cores; every axis of its grid is at least 1")
    if cores > kind.count:
        raise CapacityError(f"stream {stream.name} wants {cores} {stream.core} cores of {kind.count} on {machine.name}; use a smaller grid")
    advanced = {i.counter for i in walk(stream.body) if isinstance(i, Advance)}
    counters = dict(stream.counters)
    for name, depth in stream.counters:
        if number(depth, f"counter {name}") < 1:
            raise CheckError(f"counter {name} of stream {stream.name} has a depth of {show(depth)}; it needs 1 or more")
        if name not in advanced and number(depth, name) > 1:
            raise CheckError(f"counter {name} of stream {stream.name} is never advanced: add advance({name}) or give it a depth of 1")
    for name in sorted(advanced - counters.keys()):
        raise CheckError(f"stream {stream.name} advances {name}, which is none of its counters")
    scope = frozenset(a for a, _ in stream.grid) | counters.keys()
    if len(scope) < len(stream.grid) + len(counters):
        raise CheckError(f"stream {stream.name} uses one name for two axes or counters")
    _check_body(program, stream, stream.body, scope, set(scope), machine, names)


def _check_body(program: Program, stream: Stream, body: tuple[Item, ...], scope: frozenset[str], used: set[str], machine: Machine,
                names: dict[str, Tensor | Space]) -> None:
    """Raise CheckError unless every item names things that exist, and loop variables are unique in the stream."""
    for item in body:
        unknown = sorted(frozenset().union(*[variables(e) for e in expressions(item)]) - scope)
        if unknown:
            raise CheckError(f"{line(item)} in stream {stream.name} names {unknown[0]}, which is no loop, axis or counter here")
        if isinstance(item, For):
            if item.var in used:
                raise CheckError(f"stream {stream.name} uses the name {item.var} for two loops, axes or counters")
            used.add(item.var)
            _check_body(program, stream, item.body, scope | {item.var}, used, machine, names)
        elif isinstance(item, Instr):
            _check_instruction(stream, item, machine, names)
        elif not isinstance(item, Advance):
            _check_flag(program, stream, item, machine)


def _check_flag(program: Program, stream: Stream, item: SetFlag | WaitFlag | CrossSet | CrossWait, machine: Machine) -> None:
    pipes = machine.core(stream.core).pipes
    for pipe in (item.source, item.target) if isinstance(item, (SetFlag, WaitFlag)) else (item.pipe,):
        if pipe not in pipes:
            raise CheckError(f"{line(item)}: {stream.core} cores of {machine.name} have no pipe {pipe}, only {', '.join(pipes)}")
    if isinstance(item, (SetFlag, WaitFlag)) and item.source == item.target:
        raise CheckError(f"{line(item)}: a pipe runs in order and needs no flag to itself")
    if isinstance(item, (CrossSet, CrossWait)):
        peer = item.to if isinstance(item, CrossSet) else item.source
        if peer == stream.name or peer not in {s.name for s in program.streams}:
            raise CheckError(f"{line(item)}: {peer} is no other stream of program {program.name}")


def _check_units(stream: Stream) -> None:
    """Raise CheckError unless all instructions that access a tile of L0C have the same `unit`. In a hand-over in granules both sides
    wait for each other."""
    first: dict[str, Instr] = {}
    for item in walk(stream.body):
        if isinstance(item, Instr) and "unit" in INSTRUCTIONS[item.op].fields():
            tile = item["src" if item.op.startswith("fixpipe") else "dst"]
            other = first.setdefault(tile.buffer, item) if isinstance(tile, Ref) else item
            if item["unit"] != other["unit"]:
                raise CheckError(f"{line(item)}: unit is {show(item['unit'])} here and {show(other['unit'])} in {other.op}, which shares "
                                 f"{tile.buffer if isinstance(tile, Ref) else ''}; give all of them the same")


def _check_instruction(stream: Stream, item: Instr, machine: Machine, names: dict[str, Tensor | Space]) -> None:
    """Raise CheckError unless the instruction exists, has its fields, and has operands where this kind of core can reach them."""
    word = INSTRUCTIONS.get(item.op)
    if word is None:
        raise CheckError(f"{line(item)}: {item.op} is no instruction{nearest(item.op, INSTRUCTIONS)}")
    given = tuple(k for k, _ in item.fields)
    if not word.takes(given):
        raise CheckError(f"{line(item)}: {item.op} has fields ({', '.join(given)}) where it needs ({', '.join(word.fields())})")
    if word.pipe not in machine.core(stream.core).pipes:
        raise CheckError(f"{line(item)}: {stream.core} cores of {machine.name} have no pipe {word.pipe}")
    if not machine.has(word.name):
        raise CheckError(f"{line(item)}: {machine.name} has no instruction {word.name}")
    for n in word.numbers:
        value = item[n.name]
        if isinstance(value, Ref) or n.real and not isinstance(value, (Int, Float)):
            raise CheckError(f"{line(item)}: {n.name} must be a {'real constant' if n.real else 'number'}")
    if not isinstance(item["atomic"], Int):
        raise CheckError(f"{line(item)}: atomic must be the number 0 or 1: what is added to starts as zeros")
    dtypes = [_check_operand(stream, item, word, o, machine, names) for o in word.operands]
    try:
        check_dtypes(word, dtypes)
    except CheckError as e:
        raise CheckError(f"{line(item)}: {e.message}") from None
    numbers = {n.name: v.value for n in word.numbers if isinstance(v := item[n.name], Int)}
    if not machine.has(word.name, *dtypes, **numbers):
        form = next(f for f in machine.without if f.fits(word.name, dtypes, numbers))
        raise CheckError(f"{line(item)}: {machine.name} has {word.name}, but not {form}")


def _check_operand(stream: Stream, item: Instr, word: Instruction, o: Operand, machine: Machine, names: dict[str, Tensor | Space]) -> str:
    """Return the dtype of an operand."""
    ref = item[o.name]
    buffer = names.get(ref.buffer) if isinstance(ref, Ref) else None
    if buffer is None or not isinstance(ref, Ref):
        raise CheckError(f"{line(item)}: {o.name} must name a tensor or space of the program")
    scope = buffer.scope if isinstance(buffer, Space) else "GM"
    if scope not in o.scopes:
        raise CheckError(f"{line(item)}: {o.name} of {word.name} lies in {' or '.join(o.scopes)}, {buffer.name} is in {scope}")
    if scope != "GM" and stream.core not in (kinds := machine.scope(scope).cores):
        raise CheckError(f"{line(item)}: {stream.core} cores of {machine.name} have no {scope}; it belongs to {' and '.join(kinds)}")
    if isinstance(buffer, Tensor) and o.writes and buffer.role == "input":
        raise CheckError(f"{line(item)}: writes to {buffer.name}, which is an input")
    return buffer.dtype
