"""Attention in products, softmax and sums: heads that share keys are rows of one product, so that no key is repeated."""
from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from aoec.frontend.rules.rule import Rule
from aoec.frontend.translate.node import Node

MASK, PAST_KEY, PAST_VALUE, LENGTHS = 3, 4, 5, 6  # arguments
RAW, CAPPED, BIASED, SHARES = range(4)  # what of the scores is asked for


@dataclass
class Bias:
    """What is added to the scores [batch, heads, rows, keys]: `known` at import, and tensors; -inf where a key is not seen."""

    known: np.ndarray
    made: list[str] = field(default_factory=list)

    def total(self, n: Node) -> str:
        """Return the sum of all. Return "" where nothing is added."""
        parts = [*self.made, *([n.constant("bias", self.known)] if self.known.any() else [])]
        whole = parts[0] if parts else ""
        for part in parts[1:]:
            whole = n.step("add", [whole, part])
        return whole


def _attention(n: Node) -> bool:
    given = [at for at in range(LENGTHS) if n.has(at)]
    if any(0 in n.shape_of(at) or n.dtype_of(at) not in ("fp32", "bool") for at in given):
        return False
    rank = len(n.shape_of(0))
    q = _heads(n, n.input(0), n.integer("q_num_heads", 1), rank)
    k, v = (_append_past(n, past, _heads(n, n.input(at), n.integer("kv_num_heads", 1), rank))
            for at, past in ((1, PAST_KEY), (2, PAST_VALUE)))
    for at, present in ((1, k), (2, v)):
        if n.has_result(at):
            n.emit("reshape", [present], {"shape": n.made_shape(present)}, at=at)
    batch, heads, rows, size = n.made_shape(q)
    shared, keys = n.made_shape(k)[1:3]
    q = n.step("reshape", [q], {"shape": (batch, shared, heads // shared * rows, size)})
    scores = n.step("reshape", [n.step("matmul", [q, k], {"trans_b": 1})], {"shape": (batch, heads, rows, keys)})
    scale = n.number("scale", 0.0) or 1.0 / sqrt(size)
    stages = {RAW: n.step("muls", [scores], {"scalar": scale})}
    stages[CAPPED] = _softcap(n, stages[RAW])
    bias = _bias(n, batch, rows, keys)
    total = bias.total(n)
    stages[BIASED] = n.step("add", [stages[CAPPED], total]) if total else stages[CAPPED]
    shares = n.step("softmax", [stages[BIASED]], {"axis": 3})
    stages[SHARES] = _without_blind_rows(n, shares, bias, total)
    asked = n.integer("qk_matmul_output_mode", 0)
    if n.has_result(3):
        n.emit("reshape", [stages[max(asked, CAPPED)]], {"shape": (batch, heads, rows, keys)}, at=3)
    y = n.step("reshape", [stages[SHARES]], {"shape": (batch, shared, heads // shared * rows, keys)})
    y = n.step("reshape", [n.step("matmul", [y, v])], {"shape": (batch, heads, rows, n.made_shape(v)[3])})
    y = n.step("transpose", [y], {"perm": (0, 2, 1, 3)}) if rank == 3 else y
    return n.emit("reshape", [y], {"shape": n.shape()})


def _heads(n: Node, x: str, heads: int, rank: int) -> str:
    """Return an argument as [batch, heads, rows, size]. The argument may hold a row's heads side by side."""
    if rank == 4:
        return x
    batch, rows, width = n.made_shape(x)
    apart = n.step("reshape", [x], {"shape": (batch, rows, heads, width // heads)})
    return n.step("transpose", [apart], {"perm": (0, 2, 1, 3)})


def _append_past(n: Node, past: int, new: str) -> str:
    return n.step("concat", [n.input(past), new], {"axis": 2}) if n.has(past) else new


def _softcap(n: Node, scores: str) -> str:
    cap = n.number("softcap", 0.0)
    if cap <= 0:
        return scores
    return n.step("muls", [n.step("tanh", [n.step("muls", [scores], {"scalar": 1.0 / cap})])], {"scalar": cap})


# ---------------------------------------------------------------- which keys are seen

def _bias(n: Node, batch: int, rows: int, keys: int) -> Bias:
    bias = Bias(np.zeros((rows, keys), np.float32))
    if n.has(MASK):
        bias.made.append(_mask(n, keys))
    left, right = n.integer("left_window_size", -1), n.integer("right_window_size", -1)
    if n.integer("is_causal", 0):
        right = 0  # no window lets later keys in
    place = np.arange(rows)[:, None] - np.arange(keys)[None, :]  # of a row behind a key, where none precede it
    if not n.has(LENGTHS):
        place = place + (n.shape_of(PAST_KEY)[2] if n.has(PAST_KEY) else 0)
        unseen = (left >= 0) & (place > left) | (right >= 0) & (-place > right)
        bias.known = np.where(unseen, np.float32(-np.inf), bias.known)
        return bias
    lengths = n.step("reshape", [n.step("cast", [n.input(LENGTHS)], dtype="fp32")], {"shape": (batch, 1, 1, 1)})
    behind = n.wide(n.step("add", [n.constant("place", place[None, None] - rows), n.wide(lengths)]))
    if left >= 0:
        bias.made.append(_seen(n, "less_equal", behind, np.float32(left)))
    if right >= 0:
        bias.made.append(_seen(n, "greater_equal", behind, np.float32(-right)))
    bias.made.append(_seen(n, "greater", lengths, np.arange(keys)[None, None, None]))
    return bias


def _mask(n: Node, keys: int) -> str:
    """Return the mask as something to add, of keys that it does not reach -inf."""
    mask, dtype = n.input(MASK), n.dtype_of(MASK)
    *lead, reach = n.made_shape(mask)
    if reach < keys:
        rest = np.full((*lead, keys - reach), 0 if dtype == "bool" else -np.inf)
        mask = n.step("concat", [mask, n.constant("unreached", rest, dtype)], {"axis": len(lead)})
    return _mask_bias(n, mask) if dtype == "bool" else mask


def _seen(n: Node, word: str, x: str, other: np.ndarray | np.float32) -> str:
    """Return a bias that is 0 where `x <word> other`, else -inf."""
    return _mask_bias(n, n.step(word, [x, n.constant("bound", np.asarray(other))], dtype="bool"))


def _mask_bias(n: Node, seen: str) -> str:
    zero, never = n.constant("zero", np.zeros(())), n.constant("never", np.full((), -np.inf))
    return n.step("where", [seen, zero, never], dtype="fp32")


def _without_blind_rows(n: Node, shares: str, bias: Bias, total: str) -> str:
    """Return the shares, 0 in rows that see no key at all, which are no numbers else."""
    if not bias.made and not (bias.known == -np.inf).all(axis=-1).any():
        return shares
    blind = n.step("is_negative_inf", [n.step("reduce_max", [total], {"axes": (len(n.made_shape(total)) - 1,)})], dtype="bool")
    return n.step("where", [blind, n.constant("nothing", np.zeros(())), shares], dtype="fp32")


RULES: dict[str, Rule] = {"Attention": _attention}
ANY_DTYPE = set(RULES)
