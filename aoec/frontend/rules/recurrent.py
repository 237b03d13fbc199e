"""Translates recurrent layers, unrolled over time. The inputs of all steps are multiplied in one product. Each step is a product with the
state and elementwise work on its gates. A step past the end of a sequence leaves the state unchanged, and gives zeros.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aoec.frontend.rules.rule import Rule
from aoec.frontend.translate.node import Node

Activation = Callable[[str], str]
State = tuple[str, ...]  # the hidden state, and of an LSTM the cell's, each [batch, hidden]

# name in ONNX -> (word, its real attributes with their defaults, None where ONNX has none, in the order of activation_alpha and _beta)
ACTIVATIONS: dict[str, tuple[str, dict[str, float]]] = {
    "relu": ("relu", {}), "tanh": ("tanh", {}), "sigmoid": ("sigmoid", {}), "softsign": ("softsign", {}), "softplus": ("softplus", {}),
    "leakyrelu": ("leaky_relu", {"alpha": 0.01}), "elu": ("elu", {"alpha": 1.0}),
    "thresholdedrelu": ("thresholded_relu", {"alpha": 1.0}), "hardsigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "affine": ("", {"alpha": 1.0, "beta": 0.0}), "scaledtanh": ("tanh", {"alpha": 1.0, "beta": 1.0})}
DEFAULTS = {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}
CLIPPED = 2  # activations of a direction whose arguments are clipped: the last of an LSTM is not
LENGTHS = 4  # the argument that says how long each sequence is, in whole numbers


@dataclass(frozen=True)
class Layer:
    """One direction of a recurrent node: `inputs` [time, batch, gates], what the inputs and biases make of every gate; `weights`
    [gates, hidden] of the state; `rest`: the state's bias where it is not in `inputs`, [gates]; `peepholes` [3, hidden]."""

    n: Node
    inputs: str
    weights: str
    rest: str
    peepholes: str
    activations: Sequence[Activation]

    @property
    def hidden(self) -> int:
        return self.n.made_shape(self.weights)[1]

    def gate(self, gates: str, at: int, count: int = 1) -> str:
        """Return gates of all of them, [batch, count * hidden]."""
        return self.n.piece(gates, len(self.n.made_shape(gates)) - 1, at * self.hidden, count * self.hidden)

    def multiply_transposed(self, h: str, weights: str) -> str:
        """Multiply [batch, hidden] by [gates, hidden], transposed."""
        return self.n.step("matmul", [h, weights], {"trans_b": 1})

    def at(self, t: int) -> str:
        """Return what the inputs make of the gates at a time, [batch, gates]."""
        _, batch, gates = self.n.made_shape(self.inputs)
        return self.n.step("reshape", [self.n.piece(self.inputs, 0, t, 1)], {"shape": (batch, gates)})


# ---------------------------------------------------------------- steps

def _rnn_step(layer: Layer, x: str, state: State) -> State:
    n = layer.n
    return (layer.activations[0](n.step("add", [x, layer.multiply_transposed(state[0], layer.weights)])),)


def _gru_step(layer: Layer, x: str, state: State) -> State:
    """Return gates z (how much stays), r (what of the state the new one sees) and h (the new one)."""
    n, h, (sigmoid, tanh) = layer.n, state[0], layer.activations
    parts = [n.piece(layer.weights, 0, at * layer.hidden, count * layer.hidden) for at, count in ((0, 2), (2, 1))]
    gates = n.step("add", [layer.gate(x, 0, 2), layer.multiply_transposed(h, parts[0])])
    z, r = (sigmoid(layer.gate(gates, at)) for at in (0, 1))
    if n.integer("linear_before_reset", 0):
        seen = layer.multiply_transposed(h, parts[1])
        seen = n.step("mul", [r, n.step("add", [seen, layer.gate(layer.rest, 2)]) if layer.rest else seen])
    else:
        seen = layer.multiply_transposed(n.step("mul", [r, h]), parts[1])
    new = tanh(n.step("add", [layer.gate(x, 2), seen]))
    kept = n.step("mul", [z, h])
    return (n.step("add", [n.step("mul", [_rest_of(n, z), new]), kept]),)


def _lstm_step(layer: Layer, x: str, state: State) -> State:
    """Return gates i (what comes in), o (what goes out), f (what stays of the cell) and c (the new cell)."""
    n, (h, c), (f, g, last) = layer.n, state, layer.activations
    gates = n.step("add", [x, layer.multiply_transposed(h, layer.weights)])

    def seen(at: int, cell: str) -> str:
        gate = layer.gate(gates, at)
        if not layer.peepholes:
            return gate
        return n.step("add", [gate, n.step("mul", [cell, n.piece(layer.peepholes, 0, at, 1)])])
    i = f(seen(0, c))
    kept = _rest_of(n, i) if n.integer("input_forget", 0) else f(seen(2, c))
    cell = n.step("add", [n.step("mul", [kept, c]), n.step("mul", [i, g(layer.gate(gates, 3))])])
    return n.step("mul", [f(seen(1, cell)), last(cell)]), cell


def _rest_of(n: Node, x: str) -> str:
    """Return 1 - x."""
    return n.step("adds", [n.step("muls", [x], {"scalar": -1.0})], {"scalar": 1.0})


STEPS: dict[str, Callable[[Layer, str, State], State]] = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}


# ---------------------------------------------------------------- the layer

def _recurrent(n: Node) -> bool:
    kind = n.proto.op_type
    x_shape, w_shape = n.shape_of(0), n.shape_of(1)
    activations = _activations(n, kind, w_shape[0])
    real = all(n.dtype_of(at) == "fp32" for at in range(8) if n.has(at) and at != LENGTHS)
    if activations is None or not real or 0 in (*x_shape, *w_shape):
        return False
    batch_first = bool(n.integer("layout", 0))
    x = n.step("transpose", [n.input(0)], {"perm": (1, 0, 2)}) if batch_first else n.input(0)
    time, batch = n.made_shape(x)[:2]
    masks = _masks(n, time, batch)
    hidden: list[list[str]] = []  # of every direction, the results in the order of time
    last: list[State] = []
    for d in range(w_shape[0]):
        backwards = n.text("direction", "forward") == "reverse" or d == 1
        layer = _layer(n, kind, x, d, activations[d])
        seen, end = _run(layer, STEPS[kind], _initial(n, kind, d, batch, batch_first), masks, backwards)
        hidden.append(seen)
        last.append(end)
    _results(n, hidden, last, batch_first)
    return True


def _run(layer: Layer, step: Callable[[Layer, str, State], State], state: State, masks: Sequence[str], backwards: bool,
         ) -> tuple[list[str], State]:
    """Return (the hidden state after every step in the order of time, zeros past the end of a sequence; the last state)."""
    n = layer.n
    out: dict[int, str] = {}
    time = n.made_shape(layer.inputs)[0]
    for t in reversed(range(time)) if backwards else range(time):
        new = step(layer, layer.at(t), state)
        out[t] = new[0]
        if masks:
            shown = tuple(n.step("mul", [masks[t], s]) for s in new)
            ended = _rest_of(n, masks[t])
            new = tuple(n.step("add", [s, n.step("mul", [ended, old])]) for s, old in zip(shown, state))
            out[t] = shown[0]
        state = new
    return [out[t] for t in range(time)], state


def _layer(n: Node, kind: str, x: str, d: int, activations: Sequence[Activation]) -> Layer:
    """Make one direction of a layer, with the product of all inputs and its weights."""
    time, batch, size = n.made_shape(x)
    gates, hidden = n.shape_of(2)[1:]
    w, r = (n.step("reshape", [n.piece(n.input(at), 0, d, 1)], {"shape": n.shape_of(at)[1:]}) for at in (1, 2))
    rows = n.step("matmul", [n.step("reshape", [x], {"shape": (time * batch, size)}), w], {"trans_b": 1})
    rest = ""
    if n.has(3):
        both = n.step("reshape", [n.piece(n.input(3), 0, d, 1)], {"shape": (2 * gates,)})
        own, state = n.piece(both, 0, 0, gates), n.piece(both, 0, gates, gates)
        if kind == "GRU" and n.integer("linear_before_reset", 0):
            rest, zero = state, n.step("muls", [n.piece(state, 0, 2 * hidden, hidden)], {"scalar": 0.0})
            state = n.step("concat", [n.piece(state, 0, 0, 2 * hidden), zero], {"axis": 0})
        rows = n.step("add", [rows, n.step("add", [own, state])])
    peepholes = ""
    if kind == "LSTM" and n.has(7):
        peepholes = n.step("reshape", [n.piece(n.input(7), 0, d, 1)], {"shape": (3, hidden)})
    return Layer(n, n.step("reshape", [rows], {"shape": (time, batch, gates)}), r, rest, peepholes, activations)


def _initial(n: Node, kind: str, d: int, batch: int, batch_first: bool) -> State:
    """Return the state before the first step: as given, else zeros."""
    hidden = n.shape_of(2)[2]

    def initial_state(at: int, label: str) -> str:
        if not n.has(at):
            return n.zeros(label, (batch, hidden))
        return n.step("reshape", [n.piece(n.input(at), 1 if batch_first else 0, d, 1)], {"shape": (batch, hidden)})
    return (initial_state(5, "h"), initial_state(6, "c")) if kind == "LSTM" else (initial_state(5, "h"),)


def _masks(n: Node, time: int, batch: int) -> list[str]:
    """Return a mask [batch, 1] for every step: 1 where a sequence still goes on and 0 behind its end. Return no masks where all sequences
    are as long as the time."""
    if not n.has(LENGTHS) or n.is_constant(LENGTHS) and all(length == time for length in n.constant_integers(LENGTHS)):
        return []
    lengths = n.step("reshape", [n.step("cast", [n.input(LENGTHS)], dtype="fp32")], {"shape": (batch, 1)})
    return [n.step("clip", [n.wide(n.step("adds", [n.wide(lengths)], {"scalar": -float(t)}))], {"lo": 0.0, "hi": 1.0}) for t in range(time)]


def _results(n: Node, hidden: Sequence[Sequence[str]], last: Sequence[State], batch_first: bool) -> None:
    """Make Y [time, directions, batch, hidden] and the last states [directions, batch, hidden], as far as they are asked for. With
    `batch_first`, the batch is the first dimension of all of these."""
    batch, size = n.made_shape(hidden[0][0])
    time, directions = len(hidden[0]), len(hidden)
    if n.has_result(0):
        y = _together(n, [hidden[d][t] for t in range(time) for d in range(directions)])
        y = n.step("reshape", [y], {"shape": (time, directions, batch, size)})
        n.emit("transpose", [y], {"perm": (2, 0, 1, 3) if batch_first else (0, 1, 2, 3)}, at=0)
    for at in range(1, n.results()):
        if n.has_result(at):
            y = _together(n, [state[at - 1] for state in last])
            y = n.step("reshape", [y], {"shape": (directions, batch, size)})
            n.emit("transpose", [y], {"perm": (1, 0, 2) if batch_first else (0, 1, 2)}, at=at)


def _together(n: Node, rows: Sequence[str]) -> str:
    return n.step("concat", rows, {"axis": 0}) if len(rows) > 1 else rows[0]


# ---------------------------------------------------------------- activations

def _activations(n: Node, kind: str, directions: int) -> list[list[Activation]] | None:
    """Return the activations of every direction, after the clip of what they take. Return None where one of them has no word."""
    names = [name.lower() for name in n.texts("activations", ())] or list(DEFAULTS[kind]) * directions
    alphas, betas = list(n.numbers("activation_alpha", ())), list(n.numbers("activation_beta", ()))
    each = len(DEFAULTS[kind])
    if len(names) != each * directions or any(name not in ACTIVATIONS for name in names):
        return None
    made = [_activation(n, name, alphas, betas, at % each < CLIPPED) for at, name in enumerate(names)]
    return [made[d * each:(d + 1) * each] for d in range(directions)]


def _activation(n: Node, name: str, alphas: list[float], betas: list[float], clipped: bool) -> Activation:
    """Return the activation of that name, which takes its numbers off the lists. The cell of an LSTM is not clipped
    (frontend/differences.py)."""
    word, defaults = ACTIVATIONS[name]
    given = {key: (values.pop(0) if values else defaults[key]) for key, values in (("alpha", alphas), ("beta", betas)) if key in defaults}
    limit = n.number("clip", 0.0) if clipped else 0.0

    def apply(x: str) -> str:
        if limit > 0:
            x = n.step("clip", [x], {"lo": -limit, "hi": limit})
        if name == "affine":
            return n.step("adds", [n.step("muls", [x], {"scalar": given["alpha"]})], {"scalar": given["beta"]})
        if name == "scaledtanh":
            return n.step("muls", [n.step("tanh", [n.step("muls", [x], {"scalar": given["beta"]})])], {"scalar": given["alpha"]})
        return n.step(word, [x], given)
    return apply


RULES: dict[str, Rule] = dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent)
ANY_DTYPE = set(RULES)
