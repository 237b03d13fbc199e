"""Nodes from what the grammars match: a method a rule, called by the parser as it goes, with the list of what the rule matched."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from lark import Token

from aoec.base.errors import CheckError
from aoec.base.text import nearest, unquote
from aoec.ir.check import MAX_DEPTH, check
from aoec.ir.func.meaning import Argument, Dim, Meaning, Statement
from aoec.ir.func.tir import Block, Buffer, Constraint, Func, Loop
from aoec.ir.graph.graph import Body, Graph, Group, OpNode
from aoec.ir.graph.graph import Tensor as GraphTensor
from aoec.ir.index import DTYPES, FUNCTIONS, Binary, Call, Cast, Float, Hole, Int, Read, Var
from aoec.ir.plan import LISTS, Plan, PlanGroup
from aoec.ir.program import Advance, CrossSet, CrossWait, For, Instr, Program, Ref, SetFlag, Space, Stream, WaitFlag
from aoec.ir.program import Tensor as ProgramTensor
from aoec.ir.schedule import Step, Trace
from aoec.ir.text.places import Place, Places
from aoec.ir.text.show import show

Parts = list[Any]
Noun = TypeVar("Noun")
ONE, ZERO = Int(1), Int(0)
MOST_DIGITS = 18  # of a size


def _names(parts: Parts) -> tuple[str, ...]:
    return tuple([unquote(t) for t in parts if t is not None])


def _drop_missing(parts: Parts) -> tuple[Any, ...]:
    """Return the parts that were there: an empty list in brackets matches as one None."""
    return tuple([p for p in parts if p is not None])


def _of(items: Parts, kind: type[Noun]) -> tuple[Noun, ...]:
    return tuple([i for i in items if isinstance(i, kind)])


class _Rules:
    """State of one text: places of nodes, and how deep expressions and loops go (kept beside them, since a node has no depth)."""

    places: Places
    _depths: dict[int, tuple[object, int]]

    def begin(self, text: str, source: str) -> None:
        self.places, self._depths = Places(text, source), {}

    def __getattr__(self, name: str) -> Callable[[Parts], Any]:
        """Return rules that a grammar imports from index.lark carry its name; they are the same rules."""
        if name.startswith("index__"):
            return getattr(self, name[7:])
        raise AttributeError(name)

    def error(self, message: str, token: Place | None) -> CheckError:
        line, column = (token.line or 0, token.column or 0) if token else (0, 0)
        return CheckError(message, self.places.text, line, column, self.places.source)

    def put(self, node: Any, place: Place | None) -> Any:
        if place is not None:
            self.places.put(node, place)
        return node

    def deep(self, node: Any, parts: Any, place: Place | None) -> Any:
        """Return `node`, and note its level: one above the deepest of `parts`. Raise the error of the text beyond the limit, so that no
        later recursion exhausts the stack."""
        depths = self._depths
        level = 1 + max([depths[id(p)][1] if id(p) in depths else 1 for p in parts], default=0)
        if level > MAX_DEPTH:
            raise self.error(f"nested more than {MAX_DEPTH} levels deep; split it up", place)
        depths[id(node)] = (node, level)
        return node


class _Index(_Rules):
    """index.lark"""

    def binary(self, c: Parts) -> Any:
        if c[1] in ("//", "%") and c[2] is ZERO:
            raise self.error("this divides by zero", c[1])
        return self.deep(Binary(str(c[1]), c[0], c[2]), (c[0], c[2]), c[1])

    def variable(self, c: Parts) -> Any:
        return Var(unquote(c[0]))

    def integer(self, c: Parts) -> Any:
        return Int(self._int(c[-1], 1))

    def negative_integer(self, c: Parts) -> Any:
        return Int(self._int(c[-1], -1))

    def _int(self, token: Token, sign: int) -> int:
        if (len(token) > 19 and len(token.lstrip("0")) > 19) or not -2**63 <= sign * int(token[-20:]) < 2**63:
            raise self.error("this number does not fit 64 bits", token)
        return sign * int(token[-20:])

    def real(self, c: Parts) -> Any:
        return Float(float(c[0]))

    def negative_real(self, c: Parts) -> Any:
        return Float(-float(c[1]))

    def hole(self, c: Parts) -> Any:
        return Hole(unquote(c[0][1:]), tuple([i.value for i in c[1:]]))

    def read(self, c: Parts) -> Any:
        indices = _drop_missing(c[1:])
        return self.put(self.deep(Read(unquote(c[0]), indices), indices, c[0]), c[0])

    def guard(self, c: Parts) -> Any:
        return self.deep(Call("guard", (c[0], c[1])), (c[0],), self.places.of(c[0]))

    def call(self, c: Parts) -> Any:
        name, args = str(c[0]), tuple(c[1:])
        if name in DTYPES and len(args) == 1:
            return self.deep(Cast(name, args[0]), args, c[0])
        if name not in FUNCTIONS:
            raise self.error(f"unknown function {name}{nearest(name, [*FUNCTIONS, *DTYPES])}", c[0])
        count = FUNCTIONS[name]
        if len(args) != count if count else len(args) < 2:
            raise self.error(f"{name} takes {count or 'two or more'} arguments and is given {len(args)}", c[0])
        if name == "ceildiv" and args[1] is ZERO:
            raise self.error("this divides by zero", c[0])
        return self.deep(Call(name, args), args, c[0])

    def arguments(self, c: Parts) -> Any:
        return _drop_missing(c)

    def extras(self, c: Parts) -> Any:
        return tuple(c)

    def argument(self, c: Parts) -> Any:
        return self.put(Argument(unquote(c[0]), _drop_missing(c[1:])), c[0])

    def dim(self, c: Parts) -> Any:
        return self.put(Dim(unquote(c[0]), c[1]), c[0])

    def statement(self, c: Parts) -> Any:
        target, op, value, init = c
        return self.put(Statement(target, str(op), value, init), self.places.of(target))

    def meaning(self, c: Parts) -> Any:
        name, inputs, extras, outputs, *statements = c
        params = tuple([d.name for d in extras or () if d.extent is None])
        loops = tuple([d for d in extras or () if d.extent is not None])
        return self.put(Meaning(unquote(name), inputs, params, outputs, tuple(statements), loops), name)

    def definitions(self, c: Parts) -> Any:
        return tuple(c)

    def constraint(self, c: Parts) -> Any:
        """Return a text in quotes also lexes as a name, where the parser's state would take either."""
        if c[1][0] != '"':
            raise self.error("expected the reason in quotes: why a row that breaks this is illegal", c[1])
        return self.put(Constraint(c[0], unquote(c[1])), c[1])


class _Graph(_Rules):
    """graph.lark"""

    def tensor(self, c: Parts) -> Any:
        role, name, dtype, shape, layout, data, declared = c
        said = [n.strip() for n in shape[1:-1].split(",")] if shape[1:-1].strip() else []
        if any(len(n) > MOST_DIGITS for n in said):
            raise self.error(f"a size of {unquote(name)} has more than {MOST_DIGITS} digits", name)
        sizes = tuple(map(int, said))
        noun = GraphTensor(unquote(name), unquote(dtype), sizes, str(layout or "ND"), data[7:] if data else "",
                           unquote(declared) if declared else "")
        if (role == "const") != bool(data):
            raise self.error("a const has its data's sha256:... and nothing else has", name)
        return str(role), self.put(noun, name)

    def names(self, c: Parts) -> Any:
        return _names(c)

    def string(self, c: Parts) -> Any:
        return unquote(c[0])

    def list(self, c: Parts) -> Any:
        return tuple([n.value for n in _drop_missing(c)])

    def attribute(self, c: Parts) -> Any:
        return unquote(c[0]), c[1].value if isinstance(c[1], (Int, Float)) else c[1]

    def attributes(self, c: Parts) -> Any:
        return tuple(c)

    def node(self, c: Parts) -> Any:
        name, op, inputs, attributes, outputs = c
        return self.put(OpNode(unquote(name), str(op), inputs or (), outputs, attributes or ()), name)

    def output(self, c: Parts) -> Any:
        return "output", unquote(c[0])

    def group(self, c: Parts) -> Any:
        return self.put(Group(unquote(c[0]), unquote(c[1]), c[2] or ()), c[0])

    def body(self, c: Parts) -> Any:
        return self.put(Body(unquote(c[0]), unquote(c[1]), *(names or () for names in c[2:])), c[0])

    def definition(self, c: Parts) -> Any:
        return c[0]

    def graph(self, c: Parts) -> Any:
        name, items = c[0], c[1:]
        own = self._own(_of(items, Meaning))
        pairs = [i for i in items if isinstance(i, tuple)]
        inputs = [t for role, t in pairs if role == "input"]
        tensors = inputs + [t for role, t in pairs if role in ("const", "tensor")]
        outputs = tuple([t for role, t in pairs if role == "output"])
        g = Graph(unquote(name), tuple([t.name for t in inputs]), outputs, tuple(tensors),
                  tuple([self._add_definition(n, own) for n in _of(items, OpNode)]), _of(items, Group), _of(items, Body))
        return self.put(g, name)

    def _own(self, meanings: tuple[Meaning, ...]) -> dict[str, str]:
        """Return operator -> its definition, checked here: a node keeps the text alone."""
        self.places.unique([(m.name, m) for m in meanings], "operator", "graph")
        for m in meanings:
            check(m, self.places)
        return {m.name: show(m) for m in meanings}

    def _add_definition(self, n: OpNode, own: dict[str, str]) -> OpNode:
        """Return a node with the definition of its operator, where the graph has one."""
        place = self.places.of(n)
        return self.put(replace(n, definition=own[n.op]), place) if n.op in own else n


class _Tir(_Rules):
    """tir.lark"""

    def buffer(self, c: Parts) -> Any:
        name, dtype, *shape, scope, layout, depth, align, skew, unit, ahead = c
        noun = Buffer(unquote(name), unquote(dtype), _drop_missing(shape), unquote(scope or "GM"), str(layout or "ND"), depth or ONE,
                      align or ONE, skew or ZERO, unit or ZERO, ahead)
        return self.put(noun, name)

    def buffers(self, c: Parts) -> Any:
        return _drop_missing(c)

    def local(self, c: Parts) -> Any:
        return c[0]

    def block(self, c: Parts) -> Any:
        name, target, op, value, init, instr = c
        return self.put(Block(unquote(name), target, str(op), value, init, instr and unquote(instr)), name)

    def loop(self, c: Parts) -> Any:
        var, extent, kind, *body = c
        return self.deep(self.put(Loop(unquote(var), extent, tuple(body), unquote(kind or "serial")), var), body, var)

    def func(self, c: Parts) -> Any:
        name, inputs, outputs, *rest = c
        body = tuple([i for i in rest if isinstance(i, (Loop, Block))])
        return self.put(Func(unquote(name), inputs, outputs, _of(rest, Buffer), body, _of(rest, Constraint)), name)


class _Schedule(_Rules):
    """schedule.lark"""

    def list_of_names(self, c: Parts) -> Any:
        return _names(c)

    def field(self, c: Parts) -> Any:
        value = c[1].name if isinstance(c[1], Var) else c[1]
        return unquote(c[0]), value

    def step(self, c: Parts) -> Any:
        return self.put(Step(unquote(c[0]), _drop_missing(c[1:])), c[0])

    def trace(self, c: Parts) -> Any:
        return Trace(tuple(c[1:]))


class _Program(_Rules):
    """program.lark"""

    def tensor(self, c: Parts) -> Any:
        role, name, dtype, *shape, uncached = c
        return self.put(ProgramTensor(unquote(name), unquote(dtype), _drop_missing(shape), str(role), uncached is not None), name)

    def space(self, c: Parts) -> Any:
        name, dtype, scope, address, size, depth = c
        return self.put(Space(unquote(name), unquote(dtype), unquote(scope), address, size, depth or ONE), name)

    def axis(self, c: Parts) -> Any:
        return unquote(c[0]), c[1]

    def grid(self, c: Parts) -> Any:
        return tuple(c)

    counter, counters = axis, grid

    def stream(self, c: Parts) -> Any:
        name, core, grid, counters, *body = c
        return self.put(Stream(unquote(name), unquote(core), grid or (), counters or (), tuple(body)), name)

    def loop(self, c: Parts) -> Any:
        var, trips, *body = c
        return self.deep(self.put(For(unquote(var), trips, tuple(body)), var), body, var)

    def flag(self, c: Parts) -> Any:
        kind = SetFlag if c[0] == "set" else WaitFlag
        return self.put(kind(unquote(c[1]), unquote(c[2]), c[3]), c[0])

    def cross(self, c: Parts) -> Any:
        kind = CrossSet if c[0] == "cross_set" else CrossWait
        return self.put(kind(unquote(c[1]), unquote(c[2]), c[3]), c[0])

    def advance(self, c: Parts) -> Any:
        return self.put(Advance(unquote(c[0])), c[0])

    def field(self, c: Parts) -> Any:
        v = c[1]
        return unquote(c[0]), Ref(v.buffer, v.indices[0]) if isinstance(v, Read) and len(v.indices) == 1 else v

    def slotted(self, c: Parts) -> Any:
        return unquote(c[0]), Ref(unquote(c[1]), c[3], c[2])

    def slot(self, c: Parts) -> Any:
        if not isinstance(c[0], Token):
            return c[0]
        return Int(int(c[0][-18:])) if c[0].type.endswith("INT") else Var(unquote(c[0]))

    def instr(self, c: Parts) -> Any:
        return self.put(Instr(unquote(c[0]), _drop_missing(c[1:])), c[0])

    def program(self, c: Parts) -> Any:
        name, target, *rest = c
        parts = _of(rest, ProgramTensor), _of(rest, Space), _of(rest, Stream), _of(rest, Constraint)
        return self.put(Program(unquote(name), unquote(target), *parts), name)


class _Plan(_Rules):
    """plan.lark. A line that is no node of its own is placed by what it says."""

    def site(self, c: Parts) -> Any:
        return str(c[0]), unquote(c[1]), c[1]

    def rewrite(self, c: Parts) -> Any:
        return "rewrite" if c[2] is None else "off", (unquote(c[0]), unquote(c[1])), c[0]

    def takes(self, c: Parts) -> Any:
        whole, _, part = str(c[0]).partition(".")
        return int(whole) * 1000 + int(part.ljust(3, "0"))

    def group(self, c: Parts) -> Any:
        name, kind, *nodes, takes = c
        return self.put(PlanGroup(unquote(name), unquote(kind), _names(nodes), takes), name)

    def slices(self, c: Parts) -> Any:
        first, last, count = c
        if len(count) > MOST_DIGITS:
            raise self.error("this is no count of slices", count)
        return "slices", (unquote(first), unquote(last or first), int(count)), first

    def plan(self, c: Parts) -> Any:
        name, target, *lines = c
        said: dict[str, list[Any]] = {word: [] for word in (*LISTS, "rewrite", "off", "slices")}
        counts: dict[tuple[str, Any], int] = {}
        for word, value, token in (line for line in lines if isinstance(line, tuple)):
            said[word].append(value)
            word = word if word != "off" else "rewrite"
            again = counts[word, value] = counts.get((word, value), 0) + 1
            self.places.mark((word, value, again) if again > 1 else (word, value), token)
        p = Plan(unquote(name), unquote(target), tuple(said["rewrite"]), tuple(said["off"]), groups=_of(lines, PlanGroup),
                 slices=tuple(said["slices"]), **{field: tuple(said[word]) for word, field in LISTS.items()})
        self.places.mark(("target", p.target), target)
        return self.put(p, name)


class IndexBuilder(_Index):
    """Builds expressions and meanings."""


class GraphBuilder(_Graph, _Index):
    """Builds graphs; numbers are read as in expressions."""


class TirBuilder(_Tir, _Index):
    """Builds funcs."""


class ScheduleBuilder(_Schedule, _Index):
    """Builds traces."""


class ProgramBuilder(_Program, _Index):
    """Builds programs."""


class PlanBuilder(_Plan):
    """Builds plans."""
