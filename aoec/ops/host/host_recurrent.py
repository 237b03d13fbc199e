"""Recurrent layers for the host, by ONNX's text. The reference of the onnx package knows neither lengths of sequences nor `activations`,
`clip` and `input_forget`. It silently takes the defaults in their place."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

Activation = Callable[[np.ndarray], np.ndarray]
State = tuple[np.ndarray, ...]  # of one direction: the hidden state, and of an LSTM the cell's, each [batch, hidden]

# name -> (the function of x and its numbers, the numbers of ONNX's operator of that name: alpha, then beta)
CLIPPED = 2  # activations of a direction whose arguments are clipped; the last of an LSTM, of its cell, is not, as in onnxruntime
ACTIVATIONS: dict[str, tuple[Callable[..., np.ndarray], tuple[float, ...]]] = {
    "relu": (lambda x: np.maximum(x, 0), ()), "tanh": (np.tanh, ()), "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), ()),
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)), "leakyrelu": (lambda x, a: np.where(x < 0, a * x, x), (0.01,)),
    "thresholdedrelu": (lambda x, a: np.where(x > a, x, 0), (1.0,)), "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), (1.0, 1.0)),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), (0.2, 0.5)),
    "elu": (lambda x, a: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x), (1.0,)),
    "softsign": (lambda x: x / (1 + np.abs(x)), ()), "softplus": (lambda x: np.logaddexp(x, 0), ())}


class _Recurrent(OpRun):
    """What is common to them: directions one after the other, and in each of them every sequence alone, for it has a length of its own."""

    op_domain = ""
    defaults: tuple[str, ...]

    def _run(self, x: np.ndarray, w: np.ndarray, r: np.ndarray, b: Any = None, lengths: Any = None, *states: Any,
             **given: Any) -> tuple[np.ndarray, ...]:
        first = bool(given.get("layout"))  # the batch
        x = x.swapaxes(0, 1) if first else x
        (time, batch), (directions, gates, hidden) = x.shape[:2], r.shape
        ends = [time] * batch if lengths is None else [int(n) for n in lengths]
        bias = np.zeros((directions, 2 * gates), x.dtype) if b is None else b
        begins, rest = states[:self._states()], states[self._states():]
        zeros = np.zeros((directions, batch, hidden), x.dtype)
        start = [zeros if s is None else s.swapaxes(0, 1) if first else s for s in (*begins, *[None] * (self._states() - len(begins)))]
        y, last = np.zeros((time, directions, batch, hidden), x.dtype), [np.array(s) for s in start]
        for d in range(directions):
            functions = self._activations(d, given)
            backwards = d == 1 or given.get("direction") in ("reverse", b"reverse")
            for n, end in enumerate(ends):
                state = tuple(s[d, n] for s in start)
                for t in reversed(range(end)) if backwards else range(end):
                    state = self._step(x[t, n] @ w[d].T, r[d], bias[d], state, functions, [p[d] for p in rest if p is not None], given)
                    y[t, d, n] = state[0]
                for kept, s in zip(last, state):
                    kept[d, n] = s
        results = (y.transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in last)) if first else (y, *last)
        return tuple(results[:len(self.onnx_node.output)])

    def _states(self) -> int:
        return 1

    def _step(self, x: np.ndarray, r: np.ndarray, bias: np.ndarray, state: State, functions: list[Activation], peepholes: list[np.ndarray],
              given: Any) -> State:
        """Return the next state; `x` is what the input makes of all gates."""
        raise NotImplementedError

    def _activations(self, d: int, given: Any) -> list[Activation]:
        """Return those of a direction, after the clip of what they take. Raise ValueError for a name that ONNX does not have."""
        names = [str(n).lower() for n in given.get("activations") or ()] or list(self.defaults) * (d + 1)
        alphas, betas = (list(given.get(f"activation_{which}") or ()) for which in ("alpha", "beta"))
        limit, each = given.get("clip") or 0.0, len(self.defaults)
        made = [_activation(name, alphas, betas, limit if at % each < CLIPPED else 0.0) for at, name in enumerate(names)]
        return made[d * len(self.defaults):(d + 1) * len(self.defaults)]


def _activation(name: str, alphas: list[float], betas: list[float], limit: float) -> Activation:
    """Return the activation of that name, which takes its numbers off the lists."""
    if name not in ACTIVATIONS:
        raise ValueError(f"{name} is no activation of a recurrent layer")
    function, defaults = ACTIVATIONS[name]
    numbers = [values.pop(0) if values else default for values, default in zip((alphas, betas), defaults)]
    return lambda x: function(np.clip(x, -limit, limit) if limit > 0 else x, *numbers)


class RNN(_Recurrent):
    """One gate."""

    defaults = ("tanh",)

    def _step(self, x: np.ndarray, r: np.ndarray, bias: np.ndarray, state: State, functions: list[Activation], peepholes: list[np.ndarray],
              given: Any) -> State:
        own, of_state = np.split(bias, 2)
        return (functions[0](x + state[0] @ r.T + own + of_state),)


class GRU(_Recurrent):
    """Gates z (how much stays), r (what of the state the new one sees) and h (the new one)."""

    defaults = ("sigmoid", "tanh")

    def _step(self, x: np.ndarray, r: np.ndarray, bias: np.ndarray, state: State, functions: list[Activation], peepholes: list[np.ndarray],
              given: Any) -> State:
        (h,), (f, g) = state, functions
        (xz, xr, xh), (rz, rr, rh) = np.split(x, 3), np.split(r, 3)
        wbz, wbr, wbh, rbz, rbr, rbh = np.split(bias, 6)
        z, reset = f(xz + h @ rz.T + wbz + rbz), f(xr + h @ rr.T + wbr + rbr)
        seen = reset * (h @ rh.T + rbh) if given.get("linear_before_reset") else (reset * h) @ rh.T + rbh
        return ((1 - z) * g(xh + seen + wbh) + z * h,)


class LSTM(_Recurrent):
    """Gates i (what comes in), o (what goes out), f (what stays of the cell) and c (the new cell)."""

    defaults = ("sigmoid", "tanh", "tanh")

    def _states(self) -> int:
        return 2

    def _step(self, x: np.ndarray, r: np.ndarray, bias: np.ndarray, state: State, functions: list[Activation], peepholes: list[np.ndarray],
              given: Any) -> State:
        (h, c), (f, g, last) = state, functions
        own, of_state = np.split(bias, 2)
        xi, xo, xf, xc = np.split(x + h @ r.T + own + of_state, 4)
        pi, po, pf = np.split(peepholes[0], 3) if peepholes else (0.0, 0.0, 0.0)
        i = f(xi + pi * c)
        kept = 1 - i if given.get("input_forget") else f(xf + pf * c)
        cell = kept * c + i * g(xc)
        return f(xo + po * cell) * last(cell), cell


OPERATORS = (GRU, LSTM, RNN)
