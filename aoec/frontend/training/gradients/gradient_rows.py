"""Gradients of what is calculated of rows: softmax, norms, reductions. Each row's part is one operator, so that it is one launch."""
from __future__ import annotations

from math import prod

from aoec.frontend.training.gradients.gradient_elements import add_definition
from aoec.frontend.training.gradients.gradient_site import Rule, Site
from aoec.ir.text.parse import parse_meaning
from aoec.ops.declare import names, tensor


def _rows(s: Site, text: str, inputs: list[str], wide: str, short: str = "", columns: str = "") -> str:
    """Return the tensor of an operator of rows along the last axis. `wide`: what the text calls tensors of all elements; `short`: those of
    one number a row; `columns`: those of one a column. The last statement's target is the result."""
    loops = names("i", len(s.n.made_shape(inputs[0])))
    own = {**{w: loops for w in wide}, **{w: loops[:-1] for w in short}, **{w: loops[-1:] for w in columns}}
    head, body = text.split(":", 1)
    name, args, result = head.split()
    said = {w: tensor({"y": "Y", "g": "dY", "d": "dX"}.get(w, w.upper()), i) for w, i in own.items()}
    m = parse_meaning(f"{name}({', '.join(said[w] for w in args)}) -> {said[result]} {{{body.format(**said)}}}", name)
    return add_definition(s, m, inputs)


def softmax_gradient(s: Site, y: str, dy: str, axis: int) -> str:
    """Return the gradient of what a softmax was taken of: Y (dY - sum of dY Y)."""
    rank = len(s.n.made_shape(y))
    if axis % rank == rank - 1:
        return _rows(s, "softmax_gradient yg d: {t} += {g} * {y} {d} = {y} * ({g} - {t})", [y, dy], "ygd", "t")
    total = s.sum(s.step("mul", [dy, y]), [axis % rank])
    return s.step("mul", [y, s.step("sub", [dy, total])])


def _softmax(s: Site, at: int) -> str:
    return softmax_gradient(s, s.y, s.dy, s.integer("axis"))


def _log_softmax(s: Site, at: int) -> str:
    """dY - exp(Y) sum of dY."""
    rank, axis = len(s.out), s.integer("axis") % len(s.out)
    if axis == rank - 1:
        return _rows(s, "log_softmax_gradient yg d: {t} += {g} {d} = {g} - exp({y}) * {t}", [s.y, s.dy], "ygd", "t")
    return s.step("sub", [s.dy, s.step("mul", [s.step("exp", [s.y]), s.sum(s.dy, [axis])])])


# ---------------------------------------------------------------- norms

def _norm(s: Site, x: str, dy: str, epsilon: float, centred: bool) -> str:
    """Return the gradient of rows brought to mean 0 (where `centred`) and mean square 1: with the normalised row N and what it was
    multiplied by, R, it is R (dY - mean of dY - N mean of dY N)."""
    shape = s.n.made_shape(x)
    share = repr(1.0 / shape[-1])
    spread = "{s} += {x} {c} = {x} - {s} * " + share + " {v} += {c} * {c} " if centred else "{c} = {x} {v} += {c} * {c} "
    spread += "{r} = rsqrt({v} * " + share + f" + {epsilon!r}) " + "{n} = {c} * {r} "
    mean = "{t} += {g} " if centred else ""
    less = "{g} - {t} * " + share if centred else "{g}"
    body = spread + mean + "{u} += {g} * {n} {d} = {r} * (" + less + " - {n} * ({u} * " + share + "))"
    return _rows(s, ("layer" if centred else "rms") + "_norm_gradient xg d: " + body, [x, dy], "xgdcn", "svrtu")


def _of_rows(op: str, centred: bool) -> Rule:
    def rule(s: Site, at: int) -> str:
        """Return the gradient of the row, the scale or the bias. The bias receives dY. The scale receives dY times the normalised row. The
        row receives the norm's gradient of dY times the scale."""
        if at == 2:
            return s.dy
        epsilon = s.number("epsilon")
        if at == 1:
            return s.step("mul", [s.dy, s.step(op, [s.x(0)], epsilon=epsilon)])
        dy = s.step("mul", [s.dy, s.x(1)]) if s.has(1) else s.dy
        return _norm(s, s.x(0), dy, epsilon, centred)
    return rule


def _plane_norm(s: Site, at: int) -> str:
    """Return the gradient of a norm over planes, by taking planes as rows."""
    shape, dims = s.out, s.integer("dims")
    rows = (prod(shape[:-dims]), prod(shape[-dims:]))
    return s.reshape(_norm(s, s.reshape(s.x(0), rows), s.reshape(s.dy, rows), s.number("epsilon"), True), shape)


def _inverse_deviation(s: Site, at: int) -> str:
    """Return the gradient of X where Y = R: dY times -R^3 (X - mean) / n."""
    n = s.shape(0)[-1]
    mean = s.step("reduce_mean", [s.x(0)], axes=(len(s.out) - 1,))
    cube = s.step("mul", [s.step("mul", [s.y, s.y]), s.y])
    by = s.scale(s.step("mul", [s.dy, cube]), -1.0 / n)
    return s.step("mul", [s.step("sub", [s.x(0), mean]), by])


def _batch_norm(s: Site, at: int) -> str:
    """Return (X - M) R G + B for each channel, R = rsqrt(V + epsilon)."""
    channel = (s.shape(0)[1], *[1] * (len(s.out) - 2))
    scale, mean, variance = (s.reshape(s.x(k), channel) for k in (1, 3, 4))
    root = s.step("rsqrt", [s.step("adds", [variance], scalar=s.number("epsilon"))])
    by = s.step("mul", [scale, root])
    if at == 0:
        return s.step("mul", [s.dy, by])

    def total(x: str) -> str:
        return s.reshape(s.sum(x, [a for a in range(len(s.out)) if a != 1]), s.shape(1))
    if at == 2:
        return total(s.dy)
    if at == 3:
        return s.scale(s.step("mul", [total(s.dy), s.reshape(by, s.shape(1))]), -1.0)
    grown = total(s.step("mul", [s.dy, s.step("sub", [s.x(0), mean])]))
    root = s.reshape(root, s.shape(1))
    if at == 1:
        return s.step("mul", [grown, root])
    cube = s.step("mul", [s.step("mul", [root, root]), s.step("mul", [root, s.x(1)])])
    return s.scale(s.step("mul", [grown, cube]), -0.5)


# ---------------------------------------------------------------- reductions

def _reduce_sum(s: Site, at: int) -> str:
    return s.expand(s.dy, s.shape(0))


def _reduce_mean(s: Site, at: int) -> str:
    return s.expand(s.scale(s.dy, prod(s.out) / prod(s.shape(0))), s.shape(0))


def _reduce_extreme(s: Site, at: int) -> str:
    """Return the gradient of a reduction to an extreme. Every greatest (or least) element has the whole gradient."""
    return s.step("where", [s.step("equal", [s.x(0), s.y], "bool"), s.dy, s.zero()], "fp32")


RULES: dict[str, Rule] = {
    "softmax": _softmax, "log_softmax": _log_softmax, "layer_norm": _of_rows("layer_norm", True), "rms_norm": _of_rows("rms_norm", False),
    "plane_norm": _plane_norm, "inverse_deviation": _inverse_deviation, "batch_norm": _batch_norm, "reduce_sum": _reduce_sum,
    "reduce_mean": _reduce_mean, "reduce_max": _reduce_extreme, "reduce_min": _reduce_extreme,
}
