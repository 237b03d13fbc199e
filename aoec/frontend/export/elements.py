"""Writes elementwise operators in ONNX's own: nodes for each part of their meanings' expressions, whatever the operator.

A number takes the type of its operands. Booleans are bool in ONNX, and are cast to reals where arithmetic uses them.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from aoec import ops
from aoec.frontend.export.steps import TYPES, Step
from aoec.ir.func.meaning import Meaning, Statement
from aoec.ir.index import Binary, Call, Cast, Expr, Float, Int, Read, Var
from aoec.ops.declare import Shape

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
NAMES = {"<": "Less", "<=": "LessOrEqual", ">": "Greater", ">=": "GreaterOrEqual", "==": "Equal", "and": "And", "or": "Or", "not": "Not"}
COMPARED, TRUTHS = ("==", "!=", "<", "<=", ">", ">="), ("and", "or", "not")
ARITHMETIC = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "min": "Min", "max": "Max", "pow": "Pow", "idiv": "Div", "fmod": "Mod"}
FUNCTIONS = {name: name.capitalize() for name in (
    "abs", "exp", "log", "sqrt", "tanh", "erf", "sigmoid", "reciprocal", "floor", "ceil", "round", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "sign")}


@dataclass(frozen=True)
class Value:
    """A value of ONNX's, or a number whose type what it meets decides."""

    name: str
    type: int
    shape: Shape
    number: float | int | None = None


@dataclass
class Elements:
    """The meaning of a node while it is written; `values`: what its tensors are."""

    step: Step
    meaning: Meaning
    values: dict[str, Value] = field(default_factory=dict)
    extents: dict[str, Shape] = field(default_factory=dict)  # of arguments

    def write(self) -> str:
        """Return the value of the result, in the type that it has there."""
        s = self.step
        given = (i for i in zip(s.node.inputs, s.inputs()) if i[0])
        for argument, (tensor, name) in zip(self.meaning.inputs, given, strict=True):
            self.extents[argument.name] = s.writer.tensors[tensor].shape
            self.values[argument.name] = Value(name, s.writer.type(tensor), self.extents[argument.name])
        for statement in self.meaning.statements:
            self.values[statement.target.buffer] = self.statement(statement)
        made = self.in_type(self.values[self.meaning.outputs[0].name], s.writer.type(s.out.name))
        return made.name if made.shape == s.out.shape else s.put("Expand", [made.name, s.constant(s.out.shape, np.int64)])

    def statement(self, statement: Statement) -> Value:
        """Return the value that a statement gives its tensor."""
        loops = [i.name for i in statement.target.indices if isinstance(i, Var)]
        if statement.op != "=" or len(loops) < len(statement.target.indices) or len(set(loops)) < len(loops):
            raise self.refuse()
        return self.value(statement.value, loops)

    def value(self, e: Expr, loops: Sequence[str]) -> Value:
        """Return the value of an expression at all places of the loops."""
        if isinstance(e, (Int, Float)):
            return Value("", FLOAT, (), e.value)
        if isinstance(e, Read):
            return self.read(e, loops)
        if isinstance(e, Cast) and e.dtype in TYPES:
            return self.in_type(self.value(e.value, loops), TYPES[e.dtype])
        if isinstance(e, Binary):
            return self.call(e.op, [self.value(e.left, loops), self.value(e.right, loops)])
        if isinstance(e, Call):
            return self.call(e.fn, [self.value(a, loops) for a in e.args])
        raise self.refuse()

    def read(self, e: Read, loops: Sequence[str]) -> Value:
        """Return a tensor that is read at the loops, or at 0 where it has one element: ONNX does so by the rule of NumPy."""
        extents = self.extents.get(e.buffer, (0,) * len(e.indices))  # a local tensor is read where it is written
        behind = [Var(loop) for loop in loops[max(len(loops) - len(e.indices), 0):]]
        if e.buffer not in self.values or len(e.indices) > len(behind) or any(
                i != loop and not (i == Int(0) and n == 1) for i, loop, n in zip(e.indices, behind, extents, strict=True)):
            raise self.refuse()
        return self.values[e.buffer]

    def call(self, word: str, given: list[Value]) -> Value:
        """Return an operator or a function of values."""
        if word in COMPARED:
            a, b = self.alike(given)
            return self.put("Not", [self.put("Equal", [a, b], BOOL)], BOOL) if word == "!=" else self.put(NAMES[word], [a, b], BOOL)
        if word in TRUTHS:
            return self.put(NAMES[word], [self.in_type(v, BOOL) for v in given], BOOL)
        if word == "select":
            chosen = self.in_type(given[0], BOOL)
            return self.put("Where", [chosen, *(same := self.alike(given[1:]))], same[0].type)
        real = word == "/" or word in FUNCTIONS and word not in ("abs", "sign")
        values = self.alike([self.in_type(v, FLOAT) if real or v.type == BOOL else v for v in given])
        if word in FUNCTIONS:
            return self.put(FUNCTIONS[word], values)
        if word in ARITHMETIC:
            return self.put(ARITHMETIC[word], values, **({"fmod": 1} if word == "fmod" else {}))
        return self.compose(word, values)

    def compose(self, word: str, values: list[Value]) -> Value:
        """Return by several operators what ONNX has no single one for: the inverse of a root, truncation, and a remainder with the sign of
        its divisor."""
        if word == "rsqrt":
            return self.put("Reciprocal", [self.put("Sqrt", values)])
        if word == "trunc":
            return self.put("Mul", [self.put("Sign", values), self.put("Floor", [self.put("Abs", values)])])
        if word == "%" and values[0].type != FLOAT:
            return self.put("Mod", values)
        if word == "%":
            a, b = values
            return self.put("Sub", [a, self.put("Mul", [self.put("Floor", [self.put("Div", [a, b])]), b])])
        raise self.refuse(f"{word} has no operators of ONNX here")

    def alike(self, values: Sequence[Value]) -> list[Value]:
        """Return the values in one type: real where one is, else that of whole numbers that holds all, which numbers are too."""
        types = {v.type for v in values if v.number is None}
        types = types - {BOOL} or types
        if FLOAT in types or not types or any(v.number is not None and v.number % 1 != 0 for v in values):
            wanted = FLOAT
        else:
            wanted = helper.np_dtype_to_tensor_dtype(np.result_type(*map(helper.tensor_dtype_to_np_dtype, types)))
        return [self.in_type(v, wanted) for v in values]

    def in_type(self, v: Value, wanted: int) -> Value:
        """Return a value in a type; a number becomes a constant of it."""
        if v.number is not None:
            return Value(self.step.constant(v.number, helper.tensor_dtype_to_np_dtype(wanted)), wanted, ())
        return v if v.type == wanted else Value(self.step.as_type(v.name, v.type, wanted), wanted, v.shape)

    def put(self, op: str, values: Sequence[Value], type_: int = 0, **attributes: Any) -> Value:
        """Return what a new node makes; of its first argument's type where none is stated."""
        shape = reduce(np.broadcast_shapes, (v.shape for v in values), ())
        return Value(self.step.put(op, [v.name for v in values], **attributes), type_ or values[0].type, shape)

    def refuse(self, why: str = "it is not elementwise, and has no operators of ONNX here") -> Exception:
        return self.step.refuse(why)


def write_elements(s: Step) -> str:
    """Return the value of a node whose meaning is elementwise. Raise UnsupportedError where it is none, or ONNX has no operators for it."""
    shapes = [s.writer.tensors[i].shape for i in s.node.inputs if i]
    return Elements(s, ops.meaning(ops.word(s.node), shapes, s.node.attributes)).write()
