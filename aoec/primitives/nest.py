"""Loop nests: finding, replacing, moving and checking nodes of a func. Shared by the primitives."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from aoec.base.errors import ScheduleError
from aoec.ir.func.evaluate import block_reads, lifetime, lifetimes, touched_buffers
from aoec.ir.func.regions import Interval, region, same, union
from aoec.ir.func.tir import Block, Buffer, Func, Loop, Node, blocks, walk
from aoec.ir.index import Expr, Read, normalise, reads, rebuild, substitute, variables
from aoec.primitives.primitive import near

Path = tuple[Loop, ...]


# ---------------------------------------------------------------- finding

def find_loop(func: Func, name: str) -> tuple[Loop, Path]:
    """Return the loop of that name with the loops above it."""
    loops = {n.var: (n, above) for n, above in walk(func.body) if isinstance(n, Loop)}
    if name not in loops:
        raise ScheduleError(f"no loop {name}{near(name, loops)}")
    return loops[name]


def find_block(func: Func, name: str) -> tuple[Block, Path]:
    """Return the block of that name with the loops above it."""
    known = {b.name: (b, above) for b, above in blocks(func.body)}
    if name not in known:
        raise ScheduleError(f"no block {name}{near(name, known)}")
    return known[name]


def find_buffer(func: Func, name: str) -> Buffer:
    """Return the buffer of that name."""
    known = {b.name: b for b in func.buffers}
    if name not in known:
        raise ScheduleError(f"no buffer {name}{near(name, known)}")
    return known[name]


def writers(func: Func, buffer: str) -> list[tuple[Block, Path]]:
    """Return the blocks that write a buffer, with the loops above them."""
    return [(b, above) for b, above in blocks(func.body) if b.target.buffer == buffer]


def readers(func: Func, buffer: str) -> list[tuple[Block, Path]]:
    """Return the blocks that read a buffer, with the loops above them."""
    return [(b, above) for b, above in blocks(func.body) if any(r.buffer == buffer for r in block_reads(b))]


def reductions(block: Block, above: Path) -> list[str]:
    """Return the loops over which a block accumulates: those that its target does not name."""
    named = frozenset().union(*[variables(i) for i in block.target.indices])
    return [loop.var for loop in above if loop.var not in named] if block.op != "=" else []


def check_fused(body: tuple[Node, ...], outer: Loop, inner: Loop) -> None:
    """Raise ScheduleError where a block of the body accumulates over one of two loops that are to become one, and not over the other."""
    for block, above in blocks(body):
        mixed = {outer.var, inner.var} & set(reductions(block, (outer, inner, *above)))
        if len(mixed) == 1:
            raise ScheduleError(f"{block.name} accumulates over {mixed.pop()} and not over the other loop")


def extents(path: Path) -> dict[str, Expr]:
    """Return loop variable -> extent, outermost first."""
    return {loop.var: loop.extent for loop in path}


def chain(loop: Loop) -> tuple[list[Loop], tuple[Node, ...]]:
    """Return the loops nested perfectly from `loop` inwards, and the body of the last."""
    loops = [loop]
    while len(loops[-1].body) == 1 and isinstance(loops[-1].body[0], Loop):
        loops.append(loops[-1].body[0])
    return loops, loops[-1].body


def own_nest(func: Func, name: str) -> tuple[Node, Path]:
    """Return the outermost node that holds only the block of that name, with the loops above it."""
    block, above = find_block(func, name)
    node: Node = block
    for depth in range(len(above) - 1, -1, -1):
        if len(above[depth].body) > 1:
            return node, above[:depth + 1]
        node = above[depth]
    return node, ()


# ---------------------------------------------------------------- rebuilding

def node_name(n: Node) -> str:
    return n.var if isinstance(n, Loop) else n.name


def replace_node(body: tuple[Node, ...], name: str, f: Callable[[Node], tuple[Node, ...]]) -> tuple[Node, ...]:
    """Return the body with the loop or block of that name replaced; loops left empty go too."""
    out: list[Node] = []
    for n in body:
        if node_name(n) == name:
            out += f(n)
        elif isinstance(n, Loop):
            inside = replace_node(n.body, name, f)
            if inside:
                out.append(n if inside is n.body else replace(n, body=inside))
        else:
            out.append(n)
    return body if len(out) == len(body) and all(a is b for a, b in zip(out, body)) else tuple(out)


def remove_node(body: tuple[Node, ...], name: str) -> tuple[Node, ...]:
    """Return the body without the node of that name."""
    return replace_node(body, name, lambda n: ())


def insert(body: tuple[Node, ...], beside: str, new: tuple[Node, ...], after: bool = False) -> tuple[Node, ...]:
    """Return the body with `new` put before (or after) the node named `beside`."""
    return replace_node(body, beside, lambda n: (n, *new) if after else (*new, n))


def map_block(block: Block, f: Callable[[Expr], Expr]) -> Block:
    """Return the block with `f` applied to its target, value and init."""
    target, value, init = f(block.target), f(block.value), None if block.init is None else f(block.init)
    assert isinstance(target, Read)
    if target is block.target and value is block.value and init is block.init:
        return block
    return Block(block.name, target, block.op, value, init, block.instr)


def map_nodes(body: tuple[Node, ...], f: Callable[[Expr], Expr]) -> tuple[Node, ...]:
    """Return the body with `f` applied to every extent, target, value and init."""
    return tuple([Loop(n.var, f(n.extent), map_nodes(n.body, f), n.kind) if isinstance(n, Loop) else map_block(n, f) for n in body])


def substitute_all(body: tuple[Node, ...], values: Mapping[str, Expr]) -> tuple[Node, ...]:
    """Return the body with loop variables replaced; changed expressions are tidied."""
    def f(e: Expr) -> Expr:
        return tidy(substitute(e, values)) if variables(e) & values.keys() else e
    return map_nodes(body, f)


def tidy(e: Expr) -> Expr:
    """Return `e` with its indices in normal form; a bare integer expression stays as it is written."""
    if isinstance(e, Read):
        return Read(e.buffer, tuple(normalise(i) for i in e.indices))
    return rebuild(e, tidy)


def map_reads(e: Expr, buffer: str, f: Callable[[Read], Expr]) -> Expr:
    """Return `e` with the reads of a buffer replaced."""
    if isinstance(e, Read) and e.buffer == buffer:
        return f(e)
    if all(r.buffer != buffer for r in reads(e)):
        return fold_constants(e)
    return rebuild(e, lambda c: map_reads(c, buffer, f))


@lru_cache(maxsize=1 << 14)
def fold_constants(e: Expr) -> Expr:
    """Fold the constants of `e`, as in everything that is rebuilt."""
    return rebuild(e, fold_constants)


def wrap(block: Block, loops: list[Loop]) -> Node:
    """Return the block inside the loops, outermost first."""
    node: Node = block
    for loop in reversed(loops):
        node = replace(loop, body=(node,))
    return node


def child(func: Func, at: str | None, below: Path, block: str) -> str:
    """Return the name of the node directly under loop `at` (None: at the top) that leads to a block with loops `below` above it."""
    names = [loop.var for loop in below]
    depth = 0 if at is None else names.index(at) + 1
    return names[depth] if depth < len(names) else block


def precedes(func: Func, first: str, second: str) -> bool:
    """Return True where block `first` stands before block `second`."""
    names = [b.name for b, _ in blocks(func.body)]
    return names.index(first) < names.index(second)


def used_names(func: Func) -> set[str]:
    """Return the names in use: of loops, blocks and buffers."""
    return {node_name(n) for n, _ in walk(func.body)} | {b.name for b in func.buffers}


def check_new(func: Func, *names: str) -> None:
    """Raise ScheduleError if a name is in use already or is given twice."""
    used = used_names(func)
    for i, name in enumerate(names):
        if name in used or name in names[:i]:
            raise ScheduleError(f"the name {name} is in use already; choose another")


def replace_buffer(func: Func, buffer: Buffer) -> Func:
    """Return the func with the local buffer of that name replaced."""
    return replace(func, locals=tuple(buffer if b.name == buffer.name else b for b in func.locals))


# ---------------------------------------------------------------- regions of blocks

def path_region(read: Read, above: Path, depth: int, buffer: Buffer) -> tuple[Interval, ...]:
    """Return what an access to a buffer covers in one iteration of the loop at `depth - 1` of its path (0: in the whole func)."""
    return region(read, extents(above[depth:]), extents(above[:depth]), buffer.shape)


def accesses(func: Func, buffer: str) -> list[tuple[Read, Path]]:
    """Return every read and write of a buffer with the loops above it."""
    out = []
    for b, above in blocks(func.body):
        own = [b.target] if b.target.buffer == buffer else []
        out += [(r, above) for r in own + [r for r in block_reads(b) if r.buffer == buffer]]
    return out


def alive(func: Func, buffer: str) -> tuple[Interval, ...]:
    """Return what of a local buffer is touched in one iteration of the loop that encloses all its uses."""
    depth = len(lifetime(func, buffer))
    if not (found := accesses(func, buffer)):
        raise ScheduleError(f"nothing reads or writes {buffer}")
    return union([path_region(r, above, depth, func.buffer(buffer)) for r, above in found], buffer)


def check_lifetimes(before: Func, after: Func, moved: Block, made: str = "") -> None:
    """Raise ScheduleError if a move has put a read of a local buffer out of reach of its writes.

    A buffer whose enclosing loop changed must be read, in one iteration of the new loop, exactly where it is written there. `made` is a
    buffer known to be right.
    """
    old_lives, new_lives = lifetimes(before), lifetimes(after)
    for buffer in sorted(touched_buffers(moved) & {b.name for b in before.locals} - {made}):
        old, new = old_lives[buffer], new_lives[buffer]
        if [x.var for x in old] == [x.var for x in new]:
            continue
        if len(new) < len(old):
            raise ScheduleError(f"{moved.name} would leave the loop {old[-1].var} in which {buffer} lives")
        boxes = [path_region(r, above, len(new), after.buffer(buffer)) for r, above in accesses(after, buffer)]
        if not all(same(a.offset, b.offset) and same(a.extent, b.extent) for box in boxes for a, b in zip(boxes[0], box)):
            raise ScheduleError(f"in one iteration of {new[-1].var}, {buffer} would not be read exactly where it is written")
