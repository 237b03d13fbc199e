"""The loss of a training graph: what its gradients are of. It is one number, of shape []."""
from __future__ import annotations

from math import prod

import numpy as np

from aoec.base.errors import CheckError, UnsupportedError
from aoec.base.text import nearest
from aoec.frontend.training.parts.added import Added
from aoec.ir.graph.draft import Draft
from aoec.ops.run import REALS

TARGET, LABELS = "target", "labels"  # inputs that losses add
LONGEST_IMAGE_CLASS = 4  # from this rank on classes are the second axis, as in PyTorch; below they are the last


def add_loss(draft: Draft, asked: str) -> tuple[str, list[str]]:
    """Add the nodes of a loss and return (its tensor, notices).

    `asked` is mse or cross_entropy, either with ":" and an output, or an output that is one number. mse is the mean of squared differences
    from the input `target`. cross_entropy is the mean over all rows of -log softmax(logits)[label]. Its input `labels` has whole numbers,
    which are not checked: one outside of the classes adds nothing. Raise CheckError, with the outputs that there are, for a name that is no
    output.
    """
    if asked in draft.outputs and asked not in MAKERS:
        return _own_loss(draft, asked), []
    word, _, named = asked.partition(":")
    if word not in MAKERS:
        raise CheckError(f"--loss {asked}: there is no loss and no output of that name{nearest(asked, [*MAKERS, *draft.outputs])}; losses "
                         f"are mse and cross_entropy, outputs are {', '.join(draft.outputs)}")
    outputs = [o for o in draft.outputs if draft.tensors[o].dtype in REALS and not draft.is_constant(o)]
    if named and named not in outputs:
        raise CheckError(f"--loss {asked}: {named} is no output of real numbers{nearest(named, outputs)}; those are {', '.join(outputs)}")
    if not outputs:
        raise CheckError(f"--loss {asked}: the model has no output of real numbers, which a loss could be of")
    output = named or outputs[0]
    others = [o for o in draft.outputs if o != output]
    said = [f"the loss is of the output {output}; {', '.join(others)} take no part (--loss {word}:NAME names another)"] if others else []
    return MAKERS[word](draft, output), said


def _own_loss(draft: Draft, name: str) -> str:
    t = draft.tensors[name]
    if t.dtype not in REALS or prod(t.shape) != 1:
        raise CheckError(f"--loss {name}: a loss is one real number, and the output {name} is {t.dtype}{list(t.shape)}; mse:{name} or "
                         f"cross_entropy:{name} makes a loss of it")
    return Added(draft, "loss").step("reshape", [name], shape=())


def _mean_squares(draft: Draft, output: str) -> str:
    add = Added(draft, "loss")
    far = add.step("sub", [output, add.add_input(TARGET, "fp32", add.shape(output))])
    return _mean(add, add.step("mul", [far, far]), prod(add.shape(output)))


def _cross_entropy(draft: Draft, output: str) -> str:
    add = Added(draft, "loss")
    shape = add.shape(output)
    if not shape:
        raise UnsupportedError(f"--loss cross_entropy: the output {output} is one number, and has no classes")
    axis = 1 if len(shape) >= LONGEST_IMAGE_CLASS else len(shape) - 1
    rows = (*shape[:axis], *shape[axis + 1:])
    places = add.step("reshape", [add.add_input(LABELS, "int32", rows)], shape=(*shape[:axis], 1, *shape[axis + 1:]))
    classes = add.constant("classes", np.arange(shape[axis], dtype=np.int32).reshape((-1, *[1] * (len(shape) - axis - 1))), "int32")
    chosen = add.step("cast", [add.step("equal", [places, classes], dtype="bool")], dtype="fp32")
    likely = add.wide(add.step("log_softmax", [output], axis=axis))
    return _mean(add, add.step("mul", [likely, chosen]), -prod(rows))


def _mean(add: Added, x: str, count: int) -> str:
    """Return the sum of all elements over `count`, in fp32."""
    shape = add.shape(x)
    rows = add.wide(add.step("reduce_sum", [x], axes=(len(shape) - 1,))) if shape else x
    total = add.wide(add.step("reduce_sum", [rows], axes=tuple(range(len(shape) - 1)))) if len(shape) > 1 else rows
    return add.step("reshape", [add.wide(add.step("muls", [total], scalar=1.0 / count))], shape=())


MAKERS = {"mse": _mean_squares, "cross_entropy": _cross_entropy}
