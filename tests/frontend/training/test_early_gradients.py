"""Gradients are finished as soon as they are made: order alone changes, and no gradient waits for the end of the backward pass."""
from __future__ import annotations

from collections import Counter

import pytest

from aoec.frontend.training.early_gradients import MOVES, send_early
from aoec.frontend.training.training import load_training
from aoec.frontend.zoo import tiny_resnet
from aoec.ir.graph.draft import Draft
from aoec.options.training import Training


@pytest.mark.parametrize("precision, kind", [("fp16", "fp32"), ("fp32", "fp32"), ("fp16", "fp16")])
def test_gradients_of_a_network_come_in_the_order_of_its_layers(precision: str, kind: str) -> None:
    """Nothing but what finishes gradients stands between what makes a gradient and its last node; so those of late layers come first."""
    made = load_training(tiny_resnet(), Training("cross_entropy", gradient_type=kind), {}, precision)
    at, makers = {n.name: i for i, n in enumerate(made.graph.nodes)}, {o: n for n in made.graph.nodes for o in n.outputs}
    reads = Counter(i for n in made.graph.nodes for i in n.inputs)
    for n in made.graph.nodes:
        assert all(at[makers[i].name] < at[n.name] for i in n.inputs if i in makers)
    for _, gradient in made.gradients:
        root = makers[gradient]
        while root.op in MOVES and (source := root.inputs[0]) in makers:
            root = makers[source]
            if reads[source] > 1:
                break
        between = made.graph.nodes[at[root.name] + 1:at[makers[gradient].name]]
        assert {n.op for n in between} <= set(MOVES), (gradient, [n.op for n in between])
    names = [name for name, _ in made.gradients]
    weights = [name for name in names if name.startswith("stage") and name.endswith("_weight")]
    assert weights == sorted(weights, key=lambda name: name.split("_")[0], reverse=True)
    assert names.index("stage2_1_c_weight") < names.index("stage1_0_a_scale") < names.index("stem_weight")


def test_a_chain_behind_another_moved_chain_is_kept() -> None:
    """b reads a, which is a gradient too: both are moved behind what makes a."""
    draft = Draft("d", ["x"], ["late", "a", "b"])
    for name in ("x", "m", "late", "a", "b"):
        draft.tensor(name, "fp32", [4])
    for op, source, result in (("exp", "x", "m"), ("exp", "x", "late"), ("reshape", "m", "a"), ("cast", "a", "b")):
        draft.nodes.append(draft.node(op, [source], result))
    send_early(draft, ["a", "b"])
    assert [n.outputs[0] for n in draft.nodes] == ["m", "a", "b", "late"]
    send_early(draft, ["a", "b"])
    assert [n.outputs[0] for n in draft.nodes] == ["m", "a", "b", "late"]
