"""Law: an operator on rows is made again from what a profile says of it, by its own name and by CANN's."""
from __future__ import annotations

import pytest

from aoec.base.errors import UnsupportedError
from aoec.cann.op_summary import Operand
from aoec.cann.op_summary_join import Timed
from aoec.cann.op_types import types_of
from aoec.jobs.bank.row_funcs import FAMILIES, call_of, func_for
from aoec.ops.registry import OPS, Op
from aoec.ops.sizes import Call

ON_ROWS = [op for op in OPS.values() if op.family in FAMILIES and op.sizes and not op.sizes.numbers]


def timed(op: Op, type_: str, *more: Operand) -> Timed:
    """What a profile says of an operator over 48 rows of 64."""
    assert op.sizes is not None
    made = op.sizes.make(Call(op.name, {"m": 48, "n": 64}, frozenset()))
    inputs = tuple(Operand(a.shape, a.dtype, "ND") for a in made.arguments)
    return Timed((type_,), (*inputs, *more), (Operand((48, 64), made.dtype or "fp16", "ND"),), 1.0, "measured")


@pytest.mark.parametrize("op", ON_ROWS, ids=lambda op: op.name)
def test_a_row_says_its_operator(op: Op) -> None:
    for type_ in (op.name, *types_of(op.name)[:1]):
        name, _, rest = call_of(timed(op, type_)).partition("(")
        assert name == op.name and rest == ("m=1, n=3072, fp16)" if op.elements else "m=48, n=64, fp16)")
    assert func_for(timed(op, op.name), None).name


def test_what_a_row_does_not_say_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="2 tensors of one shape"):
        call_of(timed(OPS["mul"], "Mul", Operand((1,), "fp16", "ND")))
    for name in ("transpose", "reduce_sum"):
        with pytest.raises(UnsupportedError, match="nothing here makes"):
            call_of(timed(OPS[name], name))
