"""Copies of many short runs, done by transposition.

A burst from GM takes as long for an element or two as for a thousand. A transposed element takes a fortieth of that time.

A transposition that keeps short rows as they are becomes two that the vector unit does: rows become columns, and columns of longer rows
become rows. Padding and repetition along rows are done on whole rows of the transposed tensor, which is then transposed back. Each
launch more takes as long as some thousand runs of each core, modelled.
"""
from __future__ import annotations

from collections.abc import Collection
from math import prod

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode, Tensor
from aoec.ir.index import DTYPES
from aoec.lowering.lower.movement.lower_columns import pads_columns, pairs_of
from aoec.lowering.lower.movement.turn_reads import TURNED
from aoec.ops.words.layout import BLOCK_BYTES
from aoec.target.machine import Machine

A_RUN = 0.0035  # us of a core, at least, that a run takes which is moved alone: 3 to 7 ns on the machines there are
BESIDE = 0.5  # us that a launch more takes beside twice what a launch does, whose pipes begin cold
FEW_BYTES = 5  # elements of a byte of a short row that take as long to be turned twice, as rows of blocks of their own, as the row's run
LEAST_LANES = 64  # elements that follow each other where what is short has been turned
CORES, LAUNCH = 40, 1.9  # of a machine that is not known, and us
Steps = list[tuple[str, dict[str, Attribute]]]  # words with their attributes, the one after the other


def turn_moves(draft: Draft, machine: Machine | None, inside: Collection[str] = ()) -> None:
    """Do transposes, pads and repetitions of many short runs by transposes that turn. `inside`: nodes whose group moves what they do."""
    least = runs_of_a_launch(machine)
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        source = draft.tensors[node.inputs[0]] if node.op in WAYS and node.name not in inside else None
        short = source is not None and source.layout == "ND" and source.dtype in TURNED and 0 not in source.shape and (
            not draft.is_constant(source.name)) and draft.tensors[node.outputs[0]].layout == "ND"
        runs, steps = WAYS[node.op](source, node) if source is not None and short else (0, [])
        launches = sum(op != "reshape" for op, _ in steps)
        draft.nodes += _spelt(draft, node, steps) if steps and runs >= least * (launches - 1) else [node]


def runs_of_a_launch(machine: Machine | None) -> float:
    """Return how many runs all cores move in the time of a launch more."""
    cores = max(c.count for c in machine.cores.values() if "V" in c.pipes) if machine is not None else CORES
    launch = LAUNCH if machine is None else machine.launch_us(cores)
    return float(cores * (2 * launch + BESIDE) / A_RUN)


def _spelt(draft: Draft, node: OpNode, steps: Steps) -> list[OpNode]:
    """Return the steps in place of the node."""
    out, at = [], node.inputs[0]
    for number, (op, attributes) in enumerate(steps):
        t = draft.tensors[at]
        last, shape = number == len(steps) - 1, _result_shape(op, t.shape, attributes)
        to = node.outputs[0] if last else draft.tensor(f"{node.outputs[0]}_turned", t.dtype, shape)
        out.append(draft.node(op, [at], to, attributes, f"{node.name}_turned"))
        at = to
    return out


def _result_shape(op: str, shape: tuple[int, ...], attributes: dict[str, Attribute]) -> tuple[int, ...]:
    """Return the shape of a step's result."""
    if op == "transpose":
        return tuple(shape[a] for a in as_ints(attributes["perm"]))
    if op == "pad":
        return tuple(b + n + a for b, n, a in zip(as_ints(attributes["before"]), shape, as_ints(attributes["after"])))
    return as_ints(attributes["shape"])


def as_ints(value: Attribute | None) -> tuple[int, ...]:
    """Return a list attribute as whole numbers."""
    assert isinstance(value, tuple)
    return tuple(int(v) for v in value)


def count_runs(runs: int, lanes: int, x: Tensor) -> int:
    """Return the runs, or half of them where rows of so many elements, which are turned in their place, are no whole blocks: these take
    longer."""
    return runs if lanes * DTYPES[x.dtype] % BLOCK_BYTES == 0 else runs // 2


# ---------------------------------------------------------------- short rows that stay as they are

def _transpose_steps(x: Tensor, node: OpNode) -> tuple[int, Steps]:
    """Return (short rows, the two transposes). Rows in between are of the axis before the short one, or of the one that was before it.
    With what these leave beside it the short axis makes longer rows on the other side. Where it does not, nothing is gained."""
    shape, perm = join_axes(x.shape, as_ints(node.attribute("perm")))
    last = len(shape) - 1
    if pairs_of(x, shape, perm):  # in one launch
        return 0, []
    if last < 2 or perm[-1] != last or shape[-1] * DTYPES[x.dtype] >= BLOCK_BYTES:
        return 0, []
    swap, moved = (*range(last - 1), last, last - 1), {last: last - 1, last - 1: last}
    ways = [(shape[perm[-2]], ((*perm[:-2], last, perm[-2]), swap))] if last == 2 or perm[-3] == last - 1 else []
    ways += [(shape[-2], (swap, tuple(moved.get(a, a) for a in perm)))] if perm[-2] == last - 2 else []
    lanes, pair = max(ways, key=lambda way: way[0], default=(0, ()))
    made = tuple(x.shape[a] for a in as_ints(node.attribute("perm")))
    if lanes < LEAST_LANES or lanes * DTYPES[x.dtype] % BLOCK_BYTES:
        return 0, []
    turns: Steps = [("transpose", {"perm": p}) for p in pair]
    runs = prod(shape[:-1])
    if DTYPES[x.dtype] == 1:
        runs = runs * max(FEW_BYTES - shape[-1], 0) // FEW_BYTES
    return runs, [("reshape", {"shape": shape}), *turns, ("reshape", {"shape": made})]


def join_axes(shape: tuple[int, ...], perm: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return (shape, permutation) without axes of one element, and with axes that stay neighbours made one."""
    groups = turned_axes(shape, perm)
    order = sorted(range(len(groups)), key=lambda g: groups[g][0])
    return tuple(prod(shape[a] for a in groups[g]) for g in order), tuple(order.index(g) for g in range(len(groups)))


def turned_axes(shape: tuple[int, ...], perm: tuple[int, ...]) -> list[list[int]]:
    """Return the axes that stay neighbours, in the order of the result, without those of one element."""
    groups: list[list[int]] = []
    for a in (a for a in perm if shape[a] != 1):
        if groups and all(shape[b] == 1 for b in range(groups[-1][-1] + 1, a)) and groups[-1][-1] < a:
            groups[-1].append(a)
        else:
            groups.append([a])
    return groups


# ---------------------------------------------------------------- rows that become longer

def _pad_steps(x: Tensor, node: OpNode) -> tuple[int, Steps]:
    """Return (elements, their padding as rows) where rows begin within a block behind their padding."""
    before, after, value = as_ints(node.attribute("before")), as_ints(node.attribute("after")), node.attribute("value")
    if not before or min(*before, *after) < 0 or before[-1] * DTYPES[x.dtype] % BLOCK_BYTES == 0 or value is None:
        return 0, []
    around = [a for a in range(len(before)) if before[a] or after[a]]
    *image, width = _result_shape("pad", x.shape, {"before": before, "after": after})
    if pads_columns(x, prod(image), before[-1], width):
        return (prod(x.shape), _rows_last(before, after, value)) if len(around) > 1 else (0, [])
    lead, steps = prod(x.shape[:around[0]]), list[tuple[str, dict[str, Attribute]]]()
    if lead < LEAST_LANES and len(around) > 1:  # all other axes first, whose rows stay as they are
        outer: dict[str, Attribute] = {"before": (*before[:-1], 0), "after": (*after[:-1], 0), "value": value}
        steps.append(("pad", outer))
        made = _result_shape("pad", x.shape, outer)
        lead, around = prod(made[:-1]), around[-1:]
        behind, last = made[-1:], len(made) - 1
    else:
        behind, last = x.shape[around[0]:], around[0]
        lead = prod(x.shape[:last])
    if lead < LEAST_LANES:
        return 0, []
    wide = tuple(b + n + a for b, n, a in zip(before[last:], behind, after[last:]))
    whole = tuple(b + n + a for b, n, a in zip(before, x.shape, after))
    ends: dict[str, Attribute] = {"before": (*before[last:], 0), "after": (*after[last:], 0), "value": value}
    return count_runs(prod(x.shape), lead, x), [*steps, *_as_rows(lead, behind), ("pad", ends), *_back(lead, wide, whole)]


def _rows_last(before: tuple[int, ...], after: tuple[int, ...], value: Attribute) -> Steps:
    """Return the padding of all other axes, and then that of rows."""
    none = (0,) * (len(before) - 1)
    return [("pad", {"before": (*before[:-1], 0), "after": (*after[:-1], 0), "value": value}),
            ("pad", {"before": (*none, before[-1]), "after": (*none, after[-1]), "value": value})]


def _expand_steps(x: Tensor, node: OpNode) -> tuple[int, Steps]:
    """Return (half of the elements of an image of repeated pixels, their repetition as rows)."""
    (n, c, h, w), (down, across) = x.shape, as_ints(node.attribute("scale"))
    if across == 1:
        return 0, []
    made = (n, c, h * down, w * across)
    runs = count_runs(prod(made) // 2, n * c * (1 if n * c >= LEAST_LANES else h), x)
    if n * c >= LEAST_LANES:
        return runs, [*_as_rows(n * c, (h, 1, w, 1)), ("expand", {"shape": (h, down, w, across, n * c)}),
                      *_back(n * c, made[2:], made)]
    if n * c * h < LEAST_LANES:
        return 0, []
    wide: Steps = [*_as_rows(n * c * h, (w, 1)), ("expand", {"shape": (w, across, n * c * h)})]
    if down == 1:
        return runs, [*wide, *_back(n * c * h, (w * across,), made)]
    return runs, [*wide, *_back(n * c * h, (w * across,), (n * c * h, 1, w * across)), ("expand", {"shape": (n * c * h, down, w * across)}),
                  ("reshape", {"shape": made})]


def _as_rows(lead: int, behind: tuple[int, ...]) -> Steps:
    """Return the steps from [lead, behind] to [*behind, lead]."""
    return [("reshape", {"shape": (lead, prod(behind))}), ("transpose", {"perm": (1, 0)}), ("reshape", {"shape": (*behind, lead)})]


def _back(lead: int, behind: tuple[int, ...], shape: tuple[int, ...]) -> Steps:
    """Return the steps from [*behind, lead] to a shape that begins with the dimensions that `lead` is the product of."""
    return [("reshape", {"shape": (prod(behind), lead)}), ("transpose", {"perm": (1, 0)}), ("reshape", {"shape": shape})]


WAYS = {"pad": _pad_steps, "transpose": _transpose_steps, "upsample": _expand_steps}
