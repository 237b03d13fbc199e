"""What a flag guards: the buffers that its two pipes hand to each other, and whether as data or as a free slot."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from aoec.ir.index import Expr, Int, evaluate, substitute, variables
from aoec.ir.program import For, Instr, Item, Program, Ref, Stream, WaitFlag
from aoec.target.isa.instructions import INSTRUCTIONS

Key = tuple[str, str, Expr]  # source pipe, target pipe, id


@dataclass(frozen=True)
class Guard:
    """`why`: "data" (the source wrote what the target reads), "slot" (the source is done with what the target overwrites) or ""."""

    buffers: tuple[str, ...] = ()
    why: str = ""
    depth: int = 0  # slots of the buffer with the fewest


@dataclass
class _Use:
    """How one pipe uses one buffer."""

    slots: set[str] = field(default_factory=set)  # variables that choose the slot
    reads: bool = False
    writes: bool = False


def guards(program: Program, stream: Stream) -> dict[Key, Guard]:
    """Return every wait of a stream of a filled program, by its pipes and id, with what it guards as far as the text tells.

    A buffer is guarded by the flag whose id turns with the variable that chooses the buffer's slot. Waits whose ids have a variable of
    their own (those that drain the free flags) guard what the other waits of the same pipes and first id do. Any other wait guards what its
    pipe touches next, of the buffers that both pipes touch.
    """
    depths = {s.name: int(evaluate(s.depth, {})) for s in program.spaces}
    items, uses = list(_flat(stream.body)), _uses(stream.body, set(depths))
    counters = {name for name, _ in stream.counters}
    found: dict[Key, tuple[str, ...]] = {}
    first_ids: dict[tuple[str, str, int], tuple[str, ...]] = {}
    for i, item in enumerate(items):
        if isinstance(item, WaitFlag) and variables(item.id) <= counters:
            key = (item.source, item.target, item.id)
            names = found[key] = _guarded_buffers(item, uses) or _next(items[i + 1:], item, uses) or found.get(key, ())
            first_ids[item.source, item.target, _first(item.id)] = names
    for item in items:
        if isinstance(item, WaitFlag) and (item.source, item.target, item.id) not in found:
            found[item.source, item.target, item.id] = first_ids.get((item.source, item.target, _first(item.id)), ())
    return {key: _guard(key, names, uses, depths) for key, names in found.items()}


def _guard(key: Key, names: tuple[str, ...], uses: dict[tuple[str, str], _Use], depths: dict[str, int]) -> Guard:
    if not names:
        return Guard()
    pairs = [(uses[key[0], n], uses[key[1], n]) for n in names]
    if any(a.writes and b.reads for a, b in pairs):
        why = "data"
    else:
        why = "slot" if any(b.writes for _, b in pairs) else ""
    return Guard(names, why, min(depths[n] for n in names))


def _flat(items: tuple[Item, ...]) -> Iterator[Item]:
    """Yield items in program order, loops opened."""
    for item in items:
        if isinstance(item, For):
            yield from _flat(item.body)
        else:
            yield item


def _touched_refs(item: Instr) -> Iterator[tuple[Ref, bool]]:
    """Yield (operand, whether it is written)."""
    fields = dict(item.fields)
    for operand in INSTRUCTIONS[item.op].operands:
        ref = fields[operand.name]
        assert isinstance(ref, Ref)
        yield ref, operand.writes


def _uses(body: tuple[Item, ...], spaces: set[str]) -> dict[tuple[str, str], _Use]:
    """Return (pipe, buffer) -> how the pipe uses it."""
    out: dict[tuple[str, str], _Use] = {}
    for item in _flat(body):
        for ref, writes in _touched_refs(item) if isinstance(item, Instr) else ():
            if ref.buffer in spaces:
                use = out.setdefault((INSTRUCTIONS[item.op].pipe, ref.buffer), _Use())  # type: ignore[union-attr]
                use.slots |= variables(ref.slot)
                use.writes, use.reads = use.writes or writes, use.reads or not writes
    return out


def _common(wait: WaitFlag, uses: dict[tuple[str, str], _Use]) -> list[str]:
    """Return buffers that both pipes of a flag touch."""
    return [buffer for pipe, buffer in uses if pipe == wait.target and (wait.source, buffer) in uses]


def _guarded_buffers(wait: WaitFlag, uses: dict[tuple[str, str], _Use]) -> tuple[str, ...]:
    """Return buffers of both pipes whose slot turns with the flag's id."""
    return tuple(b for b in _common(wait, uses) if variables(wait.id) & (uses[wait.source, b].slots | uses[wait.target, b].slots))


def _next(after: list[Item], wait: WaitFlag, uses: dict[tuple[str, str], _Use]) -> tuple[str, ...]:
    """Return buffers of both pipes that the waiting pipe's next instruction touches."""
    for item in after:
        if isinstance(item, Instr) and INSTRUCTIONS[item.op].pipe == wait.target:
            touched = {ref.buffer for ref, _ in _touched_refs(item)}
            return tuple(b for b in _common(wait, uses) if b in touched)
    return ()


def _first(e: Expr) -> int:
    """Return the id where every variable is 0."""
    return int(evaluate(substitute(e, {v: Int(0) for v in variables(e)}), {}))
