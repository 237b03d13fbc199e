"""Pools and other operators of windows, for the host, by ONNX's text.

The reference of the onnx package has these faults. It pads wrongly for SAME_LOWER. Where padding is automatic, it ignores dilations and
refuses rounding up. It has shapes of its own for more than two dimensions. It sums windows of channels only for as many of them as a batch
has images.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun


class Windows:
    """The windows of a pool over the dimensions behind the channels: where they begin and how many there are, by its attributes. Those that
    would begin behind the tensor are dropped, as ONNX says from operator set 22 on and everybody does."""

    def __init__(self, size: Sequence[int], given: dict[str, Any]) -> None:
        self.size, self.kernel = tuple(size), list(given["kernel_shape"])
        rank, auto = len(self.kernel), given.get("auto_pad") or "NOTSET"
        self.strides, self.dilations = (list(given.get(name) or [1] * rank) for name in ("strides", "dilations"))
        spans = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations)]
        pads = list(given.get("pads") or ()) if auto == "NOTSET" else []
        pads = pads or [0] * (2 * rank)
        self.before, self.after = pads[:rank], pads[rank:]
        self.out = [-(-n // s) for n, s in zip(self.size, self.strides)]
        if auto.startswith("SAME"):
            total = [max(0, (o - 1) * s + span - n) for n, o, s, span in zip(self.size, self.out, self.strides, spans)]
            less, more = [t // 2 for t in total], [t - t // 2 for t in total]
            self.before, self.after = (less, more) if auto == "SAME_UPPER" else (more, less)
            return
        room = [n + b + a - span for n, b, a, span in zip(self.size, self.before, self.after, spans)]
        up = bool(given.get("ceil_mode"))
        self.out = [(-(-r // s) if up else r // s) + 1 for r, s in zip(room, self.strides)]
        self.out = [o - (up and (o - 1) * s >= n + b) for o, s, n, b in zip(self.out, self.strides, self.size, self.before)]

    def taps(self) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
        """Yield three arrays for each element of the kernel: its places in the tensor, where these are inside the tensor, and where they
        are inside the stated padding. Places outside the tensor are moved into it. An average may count the stated padding."""
        for offset in product(*map(range, self.kernel)):
            inside = counted = np.ones((), bool)
            places = []
            for n, o, s, b, a, k, d in zip(self.size, self.out, self.strides, self.before, self.after, offset, self.dilations):
                at = np.arange(o) * s - b + k * d
                inside = inside[..., None] & ((at >= 0) & (at < n))
                counted = counted[..., None] & ((at >= -b) & (at < n + a))
                places.append(at.clip(0, n - 1))
            yield np.ix_(*places), inside, counted


class MaxPool(OpRun):
    """The maxima, and where they lie: places count through the whole tensor, N and C too; of equal ones the first, of NaN the last."""

    op_domain = ""

    def _run(self, x: np.ndarray, **given: Any) -> tuple[np.ndarray, ...]:
        windows, rank = Windows(x.shape[2:], given), x.ndim - 2
        numbers = np.arange(x.size).reshape(x.shape)
        if given.get("storage_order"):  # planes are counted by columns
            numbers = numbers.reshape(*x.shape[:2], *x.shape[:1:-1]).transpose(0, 1, *range(rank + 1, 1, -1))
        shape = (*x.shape[:2], *windows.out)
        best, found, at = np.zeros(shape, x.dtype), np.zeros(shape, bool), np.zeros(shape, np.int64)
        for places, inside, _ in windows.taps():
            seen = x[(..., *places)]
            better = inside & (~found | (seen > best) | (seen != seen))
            best, at, found = np.where(better, seen, best), np.where(better, numbers[(..., *places)], at), found | better
        return (best,) if len(self.onnx_node.output) < 2 else (best, at)


class AveragePool(OpRun):
    """Sums by the number of elements of the tensor, or of it and the padding that is stated."""

    op_domain = ""

    def _run(self, x: np.ndarray, **given: Any) -> tuple[np.ndarray, ...]:
        windows = Windows(x.shape[2:], given)
        sums, counts = np.zeros((*x.shape[:2], *windows.out)), np.zeros(windows.out)
        for places, inside, counted in windows.taps():
            sums += np.where(inside, x[(..., *places)], 0)
            counts += counted if given.get("count_include_pad") else inside
        return ((sums / np.maximum(counts, 1)).astype(x.dtype),)


class LpPool(OpRun):
    """Roots of sums of powers."""

    op_domain = ""

    def _run(self, x: np.ndarray, **given: Any) -> tuple[np.ndarray, ...]:
        windows, p = Windows(x.shape[2:], given), given.get("p") or 2
        sums = np.zeros((*x.shape[:2], *windows.out))
        for places, inside, _ in windows.taps():
            sums += np.where(inside, np.abs(x[(..., *places)].astype(np.float64)) ** p, 0)
        return ((sums ** (1 / p)).astype(x.dtype),)


class GlobalMaxPool(OpRun):
    """Over all dimensions behind the channels."""

    op_domain = ""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class GlobalLpPool(OpRun):
    """Over all dimensions behind the channels."""

    op_domain = ""

    def _run(self, x: np.ndarray, p: Any = None) -> tuple[np.ndarray, ...]:
        p = p or 2
        sums = (np.abs(x.astype(np.float64)) ** p).sum(axis=tuple(range(2, x.ndim)), keepdims=True)
        return ((sums ** (1 / p)).astype(x.dtype),)


class LRN(OpRun):
    """Each element over a power of the squares of the channels around it."""

    op_domain = ""

    def _run(self, x: np.ndarray, alpha: Any = None, beta: Any = None, bias: Any = None, size: Any = None) -> tuple[np.ndarray, ...]:
        before, behind = (size - 1) // 2, size // 2
        squares = x.astype(np.float64) ** 2
        sums = np.stack([squares[:, max(0, c - before):c + behind + 1].sum(axis=1) for c in range(x.shape[1])], axis=1)
        return ((x / (bias + alpha / size * sums) ** beta).astype(x.dtype),)


OPERATORS = (AveragePool, GlobalLpPool, GlobalMaxPool, LRN, LpPool, MaxPool)
