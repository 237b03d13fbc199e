"""ONNX to graph: translate node by node, folding constants on the way, then clean up."""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, Union

import numpy as np
import onnx

from aoec.base.errors import CheckError, ParseError
from aoec.base.precision import PRECISIONS, SPELLINGS
from aoec.base.text import plural
from aoec.frontend import passes
from aoec.frontend.own.own import Words, is_own, result_types, translate
from aoec.frontend.read.bounds import axis_fault, check_work
from aoec.frontend.read.read import Shapes, graph_inputs, read, refuse
from aoec.frontend.read.shapes import SMALL, infer
from aoec.frontend.read.values import REALS, Fixed, captured_names, shape_of, stated_element, tensor
from aoec.frontend.read.versions import opset, opsets
from aoec.frontend.read.weights import array_of
from aoec.frontend.rewrites.apply import Rewriting
from aoec.frontend.rules import ANY_DTYPE, RULES, TAKES_SMALL
from aoec.frontend.translate.ceil_pools import SAID, as_run
from aoec.frontend.translate.constants import Constants
from aoec.frontend.translate.control import Control
from aoec.frontend.translate.node import Node, title_of
from aoec.frontend.translate.walk_bodies import Load, Walked, Walker, attempt, with_bodies
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OPAQUE, Graph, OpNode, Tensor
from aoec.ops import word
from aoec.ops.host import host
from aoec.ops.own import NO_DEFINITIONS, Definitions
from aoec.ops.typed import STORED, small


class Additions(Protocol):
    """What is made of a model on its way: a training graph. `prepare` changes the checked model, whose large constants `arrays` has;
    `extend` adds to what it was translated to, before clean-up passes; `settle` changes that behind them, before dtypes are chosen;
    `finish` then. The first two return notices."""

    def prepare(self, proto: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> list[str]: ...
    def extend(self, draft: Draft) -> list[str]: ...
    def settle(self, draft: Draft) -> None: ...
    def finish(self, draft: Draft) -> None: ...


def load(model: Union[str, Path, onnx.ModelProto], input_shapes: Shapes | None = None, precision: str = "fp16",
         definitions: Definitions = NO_DEFINITIONS, rewriting: Rewriting | None = None,
         additions: Additions | None = None) -> tuple[Graph, dict[str, np.ndarray], list[str]]:
    """Return (graph, its constants, notices for the user) of an ONNX model, which is a path or a proto.

    `definitions` are operators of the user's own (ops/own.py), which nodes of any domain but ONNX's own may name. `rewriting` holds rules
    of the user's own and places where rules are declined, and it records where rules were applied. `additions` says what a training graph
    is made with. Inputs and results keep ONNX's names. Reals become `precision` (passes/precision.py), and biases stay fp32. Every failure
    is an AoecError.
    """
    precision = SPELLINGS.get(precision, precision)
    if precision not in PRECISIONS:
        raise CheckError(f"precision {precision} is not one of {', '.join(PRECISIONS)}")
    rewriting = rewriting if rewriting is not None else Rewriting()
    graph, weights, notices = _load(model, input_shapes or {}, precision, definitions, 0, rewriting, additions)
    return graph, weights, list(dict.fromkeys(notices)) + _own_notices(rewriting) + _host_notice(graph)


def _load(model: Union[str, Path, onnx.ModelProto], input_shapes: Shapes, precision: str, definitions: Definitions,
          deep: int, rewriting: Rewriting, more: Additions | None = None) -> tuple[Graph, dict[str, np.ndarray], list[str]]:
    """Return (graph, its constants, notices) of a model, or of a body that lies in `deep` others."""
    notices: list[str] = []
    title = str(model) if isinstance(model, (str, Path)) else model.graph.name or "model"

    def load_body(body: onnx.ModelProto) -> tuple[Graph, dict[str, np.ndarray], list[str]]:
        return _load(body, {}, precision, definitions, deep + 1, rewriting)

    proto, arrays = read(model, dict(input_shapes), frozenset(RULES), notices, definitions)
    notices += more.prepare(proto, arrays) if more else []
    made = _Translation(title, proto, arrays, Words(definitions), load_body, deep)
    draft = made.draft
    notices += more.extend(draft) if more else []
    passes.clean(draft, precision, rewriting)
    if more:
        more.settle(draft)
    notices += [*made.notices, *passes.choose_precision(draft, precision, made.reals)]
    if more:
        more.finish(draft)
    graph, weights = with_bodies(*draft.finish(), made.walked)
    check_work(title, graph)
    return graph, weights, notices


def _own_notices(rewriting: Rewriting) -> list[str]:
    """Return how often each of the user's own rules was applied."""
    often = rewriting.counts()
    return [f"rule {r.name}: applied at {plural(often[r.name], 'place')}" if r.name in often else
            f"rule {r.name}: applied nowhere; aoec import shows the graph that it meets" for r in rewriting.own]


def _host_notice(graph: Graph) -> list[str]:
    on_host = Counter(n.op.removeprefix(host.PREFIX) for n in graph.nodes if n.op.startswith(host.PREFIX) or word(n).family == "host")
    listed = ", ".join(f"{op} ({count})" for op, count in sorted(on_host.items()))
    return [f"operators without a kernel of their own, which run on the host: {listed}"] if listed else []


class _Translation:
    """The draft of a checked model, made in one walk over its nodes."""

    def __init__(self, title: str, proto: onnx.ModelProto, arrays: Mapping[str, np.ndarray], own: Words, load_body: Load,
                 deep: int) -> None:
        g, self.own = proto.graph, own
        self.title, self.opset, self.opsets = title, opset(proto), opsets(proto)
        self.types = {i.name: i.type for i in (*g.value_info, *g.output, *g.input)}  # a result can be an input
        self.wanted = {i for n in g.node for i in (*n.input, *captured_names(n))} | {o.name for o in g.output}
        self.draft = Draft(g.name or "model", [i.name for i in graph_inputs(g)], [o.name for o in g.output])
        self.draft.reserve({*self.types, *(i.name for i in g.initializer), *self.wanted, *(o for n in g.node for o in n.output)})
        self.constants = Constants(title, self.draft, self.types, self.opsets)
        self.refused: Counter[str] = Counter()
        self.control = Control(self)
        self.walker = Walker(load_body, self.draft, self.constants, self.types, self.opsets, deep)
        self.walked: dict[str, Walked] = {}  # node -> its bodies
        self.notices: list[str] = []
        for i in graph_inputs(g):
            self.draft.put(tensor(i.name, i.type))
        for w in g.initializer:
            self.constants.put(w.name, arrays[w.name] if w.name in arrays else array_of(w, source=title))
        for node in g.node:
            self.translate(node)
        for name in self.draft.outputs:
            self._ready(name)
        refuse(title, self.refused, "neither aoec nor ONNX's reference implementation can run them here")

    @property
    def reals(self) -> dict[str, str]:
        """Return tensor -> the dtype that the model declares, of reals."""
        return {name: REALS[t.tensor_type.elem_type] for name, t in self.types.items() if t.tensor_type.elem_type in REALS}

    def translate(self, proto: onnx.NodeProto) -> None:
        """Translate a node: make its results constants, or add nodes to the draft that make them."""
        if proto.op_type == "CastLike" and (like := self.types.get(proto.input[1])) is not None and like.tensor_type.elem_type:
            proto = as_cast(proto, like.tensor_type.elem_type)
        for other in (others := self._as_run(proto)):
            self.translate(other)
        if others:
            return
        if fault := axis_fault(proto, self.types):
            raise ParseError(f"the ONNX graph is invalid: node {title_of(proto)}: {fault}", source=self.title)
        if self.constants.fold(proto) or self.control.spelled_out(proto):
            return
        if any(o and shape_of(self.types.get(o, onnx.TypeProto())) is None for o in proto.output):
            self.types.update(self._infer_types(proto))
            if self.constants.fold_empty(proto):
                return
        self._refuse_negative(proto)
        try:
            done = translate(self._node(proto), self.own) if is_own(proto, self.own.definitions) else self._by_rule(proto)
        except CheckError as e:
            raise ParseError(f"the ONNX graph is invalid: node {title_of(proto)}: {e.message}", source=self.title) from e
        if not done:
            self._to_host(proto)

    def _as_run(self, proto: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Return the nodes that replace a node of which inference gives something else than onnxruntime."""
        if proto.op_type not in SAID:
            return []
        return as_run(proto, [shape_of(self.types[i]) if i in self.types else None for i in proto.input])

    def _refuse_negative(self, proto: onnx.NodeProto) -> None:
        """Raise ParseError where results have shapes that no tensor can have, such as from a scale of -inf or 1e30."""
        for o in proto.output:
            shape = shape_of(self.types.get(o, onnx.TypeProto())) or ()
            if min(shape, default=0) < 0:
                raise ParseError(f"the ONNX graph is invalid: node {title_of(proto)}: ONNX infers the shape {list(shape)} of {o}",
                                 source=self.title)

    def _infer_types(self, proto: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        if is_own(proto, self.own.definitions):
            return result_types(proto, self.own.definitions, self.types)
        known = {i: self.constants.array(i) for i in proto.input if i in self.constants and self.constants.size(i) <= SMALL}
        return {o: t for o, t in infer(proto, self.types, known, self.opsets).items() if o not in self.types or shape_of(t) is not None}

    def _by_rule(self, proto: onnx.NodeProto) -> bool:
        """Return True where our words cover the node, which is then in the draft; none of them is about values that only the host holds."""
        results, few = self._results(proto), self._few(proto)
        held = any(i in self.constants.held or self.draft.tensors[i].dtype == OPAQUE for i in proto.input if i)
        if proto.op_type not in RULES or proto.domain not in host.OWN_DOMAIN or held or few and proto.op_type not in TAKES_SMALL or any(
                t.dtype == OPAQUE and o in self.wanted for o, t in results.items()):
            return False
        return (proto.op_type in ANY_DTYPE or self._is_real(proto)) and RULES[proto.op_type](self._node(proto))

    def _node(self, proto: onnx.NodeProto) -> Node:
        dtypes = {o: t.dtype for o, t in self._results(proto).items()}
        return Node(proto, self.draft, self.opset, Fixed(self.types), dtypes, self.wanted, self._few(proto))

    def _results(self, proto: onnx.NodeProto) -> dict[str, Tensor]:
        return {o: tensor(o, self.types.get(o)) for o in proto.output if o}

    def _few(self, proto: onnx.NodeProto) -> dict[str, str]:
        """Return arguments and results of few bits -> their element type."""
        return {name: e for name in (*proto.input, *proto.output) if name and (e := stated_element(self.types.get(name))) in STORED}

    def _is_real(self, proto: onnx.NodeProto) -> bool:
        """Return True where result and data are real numbers: what our words are about."""
        data = [i for at, i in enumerate(proto.input) if i and (at == 0 or i not in self.draft.weights)]
        return tensor("", self.types.get(proto.output[0])).dtype == "fp32" and all(self.draft.tensors[i].dtype == "fp32" for i in data)

    # ------------------------------------------------------------ host

    def _to_host(self, proto: onnx.NodeProto) -> None:
        """Add the node as `host.<OpType>`, and count it among `refused` where it cannot run."""
        around = captured_names(proto)
        walked = attempt(self.walker, proto, self.notices)
        if walked is None and not self._runs(proto, around):
            self.refused[host.word(proto).removeprefix(host.PREFIX)] += 1
        inputs = walked.inputs if walked else (*proto.input, *around)
        for name, shape in (walked.shapes if walked else {}).items():
            if name in self.types:
                self.types[name] = onnx.helper.make_tensor_type_proto(self.types[name].tensor_type.elem_type, shape)
        for name in inputs:
            if name in self.constants.held:
                self.constants.make(name)
        outputs = tuple(o or self.draft.fresh(f"{proto.op_type.lower()}_unused") for o in _trim_outputs(proto.output))
        for name in outputs:
            made = tensor(name, self.types.get(name))
            self.draft.put(made if made.dtype == OPAQUE or small(made.declared) else replace(made, declared=""))
        label = self.draft.fresh(proto.name or f"{proto.op_type.lower()}_0", "node")
        if walked:
            self.walked[label], attributes = walked, walked.attributes
            self.notices += walked.notices
        else:
            attributes = host.attributes(proto, self.opsets, around, [stated_element(self.types.get(i)) for i in inputs],
                                         len(self.draft.nodes))
        self.draft.nodes.append(OpNode(label, host.word(proto), inputs, outputs, tuple(attributes.items())))

    def _ready(self, name: str) -> None:
        """Put a result of the graph into the draft, with the type that the model declares for it."""
        if name in self.constants.held:
            self.constants.make(name)
        else:
            declared = tensor(name, self.types.get(name)).declared
            self.draft.tensors[name] = replace(self.draft.tensors[name], declared=declared)

    def _runs(self, proto: onnx.NodeProto, around: Sequence[str]) -> bool:
        """Return True where ONNX's reference implementation has the operator, and those in its subgraphs."""
        try:
            host.evaluator(proto, self.opsets, around)
        except Exception:  # of any class: the operator is then listed as unsupported
            return False
        return True


def as_cast(like: onnx.NodeProto, to: int) -> onnx.NodeProto:
    """Return the Cast to an element type that a CastLike of a value of that type is."""
    cast = onnx.helper.make_node("Cast", like.input[:1], like.output, like.name, to=to)
    cast.attribute.extend(like.attribute)
    return cast


def _trim_outputs(outputs: Sequence[str]) -> list[str]:
    """Return the outputs up to the last that has a name."""
    listed = list(outputs)
    while listed and not listed[-1]:
        listed.pop()
    return listed
