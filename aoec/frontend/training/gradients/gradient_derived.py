"""Gradients that follow from an operator's meaning alone, as `ops.gradient` derives them, in the words that `frontend.own` has."""
from __future__ import annotations

from dataclasses import replace

from aoec.base.errors import UnsupportedError
from aoec.frontend.own.own import Words, translate
from aoec.frontend.training.gradients.gradient_site import Site
from aoec.ir.func.meaning import Meaning, Statement
from aoec.ir.index import reads
from aoec.ir.text.parse import parse_meaning
from aoec.ir.text.show import show
from aoec.ops.gradient import derive_gradient
from aoec.ops.meanings import meaning
from aoec.ops.own import fault_of, word

DOMAIN = "aoec.gradient"


def derive_argument(s: Site, at: int) -> str:
    """Return the gradient of an argument. Return "" where the result does not depend on it smoothly."""
    node = s.node
    given = [i for i in node.inputs if i]
    if len(given) < len(node.inputs) and "" in node.inputs[:at]:
        raise UnsupportedError("it has no gradient where arguments in the middle are absent")
    m = meaning(word(node), [s.n.made_shape(i) for i in given], node.attributes)
    try:
        whole = derive_gradient(m)
    except UnsupportedError as e:
        if "depends smoothly" in str(e):
            return ""
        raise
    results = [o for o in whole.outputs if o.name == f"d{m.inputs[at].name}"]
    if not results:
        return ""
    one = _only(replace(whole, outputs=(results[0],)))
    held = dict(zip([a.name for a in whole.inputs], [*given, s.dy]))
    if fault := fault_of(one):
        raise UnsupportedError(f"its gradient is no operator: {fault}")
    n, made = s.as_onnx(one.name, [held[a.name] for a in one.inputs], s.shape(at), DOMAIN)
    translate(n, Words({one.name: show(one)}, s.known.taken))
    return made


def _only(m: Meaning) -> Meaning:
    """Return the meaning without statements and arguments that its results do not need."""
    wanted = {o.name for o in m.outputs}
    kept: list[Statement] = []
    for st in reversed(m.statements):
        if st.target.buffer in wanted:
            kept.insert(0, st)
            wanted |= {r.buffer for e in (st.value, *st.target.indices, *(() if st.init is None else (st.init,))) for r in reads(e)}
    return parse_meaning(show(replace(m, inputs=tuple(a for a in m.inputs if a.name in wanted), statements=tuple(kept))))
