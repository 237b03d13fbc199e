"""Makes a training graph: a step of training as a graph like any other.

An inference model becomes one while it is imported. Its parameters become inputs, and normalisations take the statistics of their batch. A
loss is added, then the backward graph and the optimiser. Then the passes clean all of it, and dtypes are chosen. With 16 bits, parameters,
states and losses stay fp32, and forward and backward passes run in 16 bits. Gradients are cast to the type in which they are sent.

Results are the loss, the gradients (`<parameter>_grad`), and the next values of parameters, states and running statistics (`<name>_next`).
A model that already holds its gradients is taken unchanged.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

import numpy as np
import onnx

from aoec.base.errors import CheckError, UnsupportedError
from aoec.base.text import nearest, plural
from aoec.frontend.read.weights import Arrays
from aoec.frontend.rewrites.apply import Rewriting
from aoec.frontend.training.differentiate import differentiate
from aoec.frontend.training.early_gradients import send_early
from aoec.frontend.training.parts.added import Added
from aoec.frontend.training.parts.batch_norms import finish_batch_norms, mask_dropouts, momenta, train_batch_norms
from aoec.frontend.training.parts.losses import add_loss
from aoec.frontend.training.parts.optimisers import Rule, add_optimiser
from aoec.frontend.training.parts.trained_parameters import Parameter, free_parameters
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.gradients import GRADIENT, LOSS, NEXT, gradients_among
from aoec.ir.graph.graph import Graph, OpNode
from aoec.ops.own import NO_DEFINITIONS, Definitions
from aoec.ops.run import REALS
from aoec.options.training import Training

SHARING = ("conv2d", "matmul", "interpolate", "attention")  # operators that read a cast which others read too: the cube casts nothing


@dataclass(frozen=True)
class TrainingGraph:
    """A training graph with its constants. `gradients`: (parameter, its gradient), in the order in which the backward pass makes them;
    `initial`: the values of the inputs that the model has values for."""

    graph: Graph
    weights: Mapping[str, np.ndarray]
    notices: list[str]
    loss: str
    gradients: tuple[tuple[str, str], ...]
    initial: Mapping[str, np.ndarray] = field(default_factory=dict)


def load_training(model: str | Path | onnx.ModelProto, asked: Training, shapes: Mapping[str, Sequence[int]] | None = None,
                  precision: str = "fp16", definitions: Definitions = NO_DEFINITIONS, rewriting: Rewriting | None = None) -> TrainingGraph:
    """Return the training graph of a model. Raise CheckError where it has no parameters, or no loss or output of that name. Raise
    UnsupportedError, with node and operator, where a gradient is asked for through what has none."""
    if asked.gradients or asked.loss and held_gradients(model):
        return _as_it_is(model, asked, shapes or {}, precision, definitions, rewriting)
    made = _Step(asked, precision)
    graph, weights, notices = load(model, shapes, precision, definitions, rewriting, made)
    initial = {p.name: p.values for p in (*made.parameters, *made.running)}
    return TrainingGraph(graph, weights, notices, made.loss, find_gradients(graph), initial)


def _as_it_is(model: str | Path | onnx.ModelProto, asked: Training, shapes: Mapping[str, Sequence[int]], precision: str,
              definitions: Definitions, rewriting: Rewriting | None) -> TrainingGraph:
    """Return a model that holds its gradients."""
    graph, weights, notices = load(model, shapes, precision, definitions, rewriting)
    for name in asked.gradients:
        if name not in graph.outputs:
            raise CheckError(f"--gradients {name} is no output of the model{nearest(name, graph.outputs)}; those are "
                             f"{', '.join(graph.outputs)}"[:600])
    loss = find_loss(graph, asked.loss)
    found = find_gradients(graph, asked.gradients)
    said = f"the model holds {plural(len(found), 'gradient')} already: it is taken as it is"
    return TrainingGraph(graph, weights, [*notices, said], loss, found)


def held_gradients(model: str | Path | onnx.ModelProto) -> bool:
    """Return whether outputs of a model are called as gradients of its inputs or constants are."""
    from aoec.frontend.read.read import open_model
    g = open_model(model).graph
    names = {x.name for x in (*g.input, *g.initializer)}
    return bool(gradients_among((o.name for o in g.output), names))


def find_gradients(graph: Graph, named: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    """Return (parameter, its gradient) of a training graph, in the order in which its nodes make them: outputs of those names, or those
    that are called after an input or constant. Of a gradient that is called otherwise the parameter is ""."""
    names = {*graph.inputs, *(t.name for t in graph.tensors if t.data)}
    made = {o: at for at, n in enumerate(graph.nodes) for o in n.outputs}
    known = gradients_among(graph.outputs, names)
    return tuple((known.get(o, ""), o) for o in sorted(named or known, key=lambda o: made.get(o, -1)))


def find_loss(graph: Graph, named: str = "") -> str:
    """Return the loss of a training graph: the output of that name, else the one called loss, else the only one that is one real number.
    Raise CheckError where there is none."""
    if named and named not in graph.outputs:
        raise CheckError(f"--loss {named}: the model holds gradients already, and has no output of that name"
                         f"{nearest(named, graph.outputs)}; its outputs are {', '.join(graph.outputs)}"[:600])
    tensors = {t.name: t for t in graph.tensors}
    single = [o for o in graph.outputs if tensors[o].dtype in REALS and prod(tensors[o].shape) == 1 and not o.endswith(NEXT)]
    if found := named or (LOSS if LOSS in graph.outputs else single[0] if len(single) == 1 else ""):
        return found
    raise CheckError(f"which output is the loss is not known: give its name with --loss; the outputs are {', '.join(graph.outputs)}"[:600])


class _Step:
    """What makes a training graph of a model while it is imported (translate.Additions)."""

    def __init__(self, asked: Training, precision: str) -> None:
        self.asked, self.precision = asked, precision
        self.parameters: list[Parameter] = []
        self.running: list[Parameter] = []
        self.kept: dict[str, float] = {}
        self.convolves = False
        self.loss = ""
        self.sent: list[str] = []

    def prepare(self, proto: onnx.ModelProto, arrays: Arrays) -> list[str]:
        """Return notices, after parameters and running statistics became inputs of the model."""
        self.kept, self.convolves = momenta(proto), any(n.op_type == "Conv" for n in proto.graph.node)
        self.parameters, self.running = free_parameters(proto, arrays, self.asked.trained)
        return mask_dropouts(proto)

    def extend(self, draft: Draft) -> list[str]:
        """Return notices, after loss, backward graph and optimiser were added to the draft, which is all fp32."""
        scale = self.asked.scale(self.precision)
        norms, updates = train_batch_norms(draft, [p.name for p in self.running], self.kept)
        loss, notices = add_loss(draft, self.asked.loss)
        add = Added(draft, LOSS)
        self.loss = add.wide(add.step("reshape", [loss], result=draft.fresh(LOSS), shape=()))
        scaled = add.wide(add.step("muls", [loss], scalar=scale)) if scale != 1 else loss
        names = [p.name for p in self.parameters]
        found = differentiate(draft, scaled, [*names, *(name for n in norms for name in n.ends)])
        finish_batch_norms(draft, norms, found)
        trained = {name: found[name] for name in names if name in found}
        if not trained:
            raise UnsupportedError(f"the loss {self.asked.loss} depends on no parameter of the model")
        sent = {name: add.step("reshape", [g], result=draft.fresh(f"{name}{GRADIENT}"), shape=add.shape(g)) for name, g in trained.items()}
        rule = Rule(self.asked.momentum, self.asked.weight_decay, 1 / scale)
        updates += add_optimiser(draft, self.asked.optimiser, sent, rule)
        results = [add.step("reshape", [now], result=draft.fresh(f"{name}{NEXT}"), shape=add.shape(now)) for name, now in updates]
        draft.wide |= {*names, *results, *(p.name for p in self.running)}
        draft.outputs = (self.loss, *sent.values(), *results)
        self.sent = [*sent.values()]
        return [*notices, *self._describe(trained, bool(norms), scale)]

    def _describe(self, trained: Mapping[str, str], normed: bool, scale: float) -> list[str]:
        """Return what is said of a training graph."""
        a, count = self.asked, sum(p.size for p in self.parameters if p.name in trained)
        out = [f"training: {plural(len(trained), 'gradient')} of {count:,} parameters; loss {a.loss}, optimiser {a.optimiser}"
               + (f", loss scale {scale:g}" if scale != 1 else "")]
        if left := [p.name for p in self.parameters if p.name not in trained]:
            out.append(f"training: the loss does not depend on {plural(len(left), 'parameter')} (first: {left[0]}), which "
                       f"{'is' if len(left) == 1 else 'are'} not trained")
        if not normed and self.convolves:
            out.append("training: the model has convolutions and no BatchNormalization; one that was folded into its weights is trained as "
                       "it stands")
        return out

    def settle(self, draft: Draft) -> None:
        """Give gradients the type in which they are sent, by casts of what the backward pass makes. Clean-up passes have run before."""
        kind = self.asked.gradient_type
        if self.precision == "fp32" and kind == "fp32":
            return
        makers = draft.producers()
        at = {n.name: number for number, n in enumerate(draft.nodes)}
        added: dict[int, list[OpNode]] = {}
        for name in self.sent:
            maker, t = makers[name], draft.tensors[name]
            own = draft.tensor(f"{name}_made", "fp32", t.shape)
            place = at[maker.name]
            draft.nodes[place] = renamed = replace(draft.nodes[place], outputs=tuple(own if o == name else o for o in maker.outputs))
            makers.update((o, renamed) for o in renamed.outputs)
            added.setdefault(place, []).append(draft.node("cast", [own], name, name=f"{name}_sent"))
        draft.nodes = [n for number, node in enumerate(draft.nodes) for n in (node, *added.get(number, ()))]
        draft.wide |= {*self.sent}

    def finish(self, draft: Draft) -> None:
        """Give each reader of a cast a cast of its own, which joins the reader's launch. Dtypes have been chosen before."""
        self._cast_behind_views(draft)
        users, nodes = draft.users(), list[OpNode]()
        casts = {n.outputs[0]: n for n in draft.nodes
                 if self._is_real_cast(draft, n) and len({u.name for u in users.get(n.outputs[0], [])}) > 1
                 and n.outputs[0] not in draft.outputs and n.inputs[0] not in draft.inputs}
        for n in draft.nodes:
            given = {}
            for i in dict.fromkeys(n.inputs):
                if i in casts and n.op not in SHARING:
                    given[i] = own = draft.fresh(i)
                    draft.put(replace(draft.tensors[i], name=own))
                    nodes.append(draft.node("cast", casts[i].inputs, own))
            nodes.append(replace(n, inputs=tuple(given.get(i, i) for i in n.inputs)) if given else n)
        draft.nodes = nodes
        still = draft.users()
        draft.nodes = [n for n in draft.nodes if n.outputs[0] not in casts or n.outputs[0] in still]
        if self.asked.gradient_type != "fp32":
            self._send_as(draft, self.asked.gradient_type)
        else:
            self._send_sums(draft)
        send_early(draft, self.sent)

    def _send_sums(self, draft: Draft) -> None:
        """Send gradients as the fp32 sums that products of 16 bits make. So no sum is rounded on the way, no cast is a launch, and cores
        may share the terms of a sum. Remove casts of fp32 to fp32."""
        makers, users = draft.producers(), draft.users()
        gone, names = set[str](), dict[str, str]()
        for name in self.sent:
            way: list[OpNode] = []
            at = name
            while (n := makers.get(at)) is not None and (n.op in ("reshape", "transpose") or self._is_real_cast(draft, n)) and (
                    at == name or len(users.get(at, [])) == 1 and at not in draft.outputs):
                way.append(n)
                at = n.inputs[0]
            alone = n is not None and len(users.get(at, [])) == 1 and at not in draft.outputs
            if alone and n is not None and n.op == "matmul" and len(n.inputs) == 2:
                for t in (at, *(m.outputs[0] for m in way)):
                    draft.put(replace(draft.tensors[t], dtype="fp32"))
            for m in reversed(way):
                if m.op == "cast" and draft.tensors[m.inputs[0]].dtype == "fp32" and m.inputs[0] in makers and (
                        len(users.get(m.inputs[0], [])) == 1 and m.inputs[0] not in draft.outputs):
                    gone.add(m.name)
                    names[m.inputs[0]] = m.outputs[0]

        def last(t: str) -> str:
            while t in names:
                t = names[t]
            return t
        draft.nodes = [replace(n, inputs=tuple(map(last, n.inputs)), outputs=tuple(map(last, n.outputs)))
                       for n in draft.nodes if n.name not in gone]

    @staticmethod
    def _is_real_cast(draft: Draft, n: OpNode) -> bool:
        return n.op == "cast" and draft.tensors[n.inputs[0]].dtype in REALS and draft.tensors[n.outputs[0]].dtype in REALS

    def _cast_behind_views(self, draft: Draft) -> None:
        """Replace views of casts by casts of views. A cast joins its reader in a launch, and a view does not."""
        casts, nodes = dict[str, OpNode](), list[OpNode]()
        for n in draft.nodes:
            if n.op == "reshape" and n.inputs[0] in casts and n.outputs[0] not in draft.outputs:
                source, out = draft.tensors[casts[n.inputs[0]].inputs[0]], draft.tensors[n.outputs[0]]
                view = draft.fresh(f"{source.name}_view")
                draft.put(replace(source, name=view, shape=out.shape, data=""))
                nodes.append(replace(n, inputs=(source.name,), outputs=(view,)))
                n = draft.node("cast", [view], out.name)
            nodes.append(n)
            if self._is_real_cast(draft, n):
                casts[n.outputs[0]] = n
        read = {*draft.outputs, *(i for n in nodes for i in n.inputs)}
        draft.nodes = [n for n in nodes if not self._is_real_cast(draft, n) or n.outputs[0] in read]

    def _send_as(self, draft: Draft, kind: str) -> None:
        """Give gradients another type than fp32. Their readers read them through a cast to fp32."""
        for name in self.sent:
            draft.put(replace(draft.tensors[name], dtype=kind))
        nodes = []
        for n in draft.nodes:
            given = {}
            for i in n.inputs:
                if i in self.sent and n.op != "cast":
                    given[i] = back = draft.tensor(f"{i}_fp32", "fp32", draft.tensors[i].shape)
                    nodes.append(draft.node("cast", [i], back))
            nodes.append(replace(n, inputs=tuple(given.get(i, i) for i in n.inputs)) if given else n)
        draft.nodes = nodes

