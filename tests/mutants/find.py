"""Finds what a fault changes: a function by its name and in it an expression or statements, wherever the function lies.

An expression is compared by its syntax tree, so that its layout does not matter. Where no function has the name any more, what the fault
changes is looked for in all sources: a function that was renamed is found so.
"""
from __future__ import annotations

import ast
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.mutants.faults import Fault

ROOTS = ("aoec", "kernels", "bench", "tests")
WORD = re.compile(r"[^\W\d]\w*")
NOT_ALONE = (ast.Slice, ast.Starred)  # expressions that stand within others only


class MisfitError(Exception):
    """What a fault changes is not there, or more than once."""


@dataclass(frozen=True)
class Change:
    """A file as it is and with the fault."""

    path: str  # from the root of the project
    before: str
    after: str


@dataclass(frozen=True)
class Function:
    """A function, method (Class.method) or statement of a module (by the name that it defines) in a file."""

    path: str
    name: str
    node: ast.stmt

    @cached_property
    def pieces(self) -> dict[type[ast.AST], list[ast.AST]]:
        """The expressions and statements that can be replaced, by kind."""
        out = defaultdict[type[ast.AST], list[ast.AST]](list)
        for node in (self.node, *_replaceable(self.node)):
            out[type(node)].append(node)
        return out


class Sources:
    """The sources of a project by path."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self._functions: dict[str, list[Function]] = {}

    @classmethod
    def of(cls, root: Path) -> Sources:
        """Return the Python sources under a root."""
        files = sorted(p for name in ROOTS for p in (root / name).rglob("*.py"))
        return cls({str(p.relative_to(root)): p.read_text("utf-8") for p in files})

    def functions(self, path: str) -> list[Function]:
        """Return what a file defines; it is parsed when it is first asked for."""
        if path not in self._functions:
            self._functions[path] = list(_functions(path, self.texts[path]))
        return self._functions[path]

    @cached_property
    def holders(self) -> dict[str, set[str]]:
        """The files in which a word stands."""
        out = defaultdict[str, set[str]](set)
        for path, text in self.texts.items():
            for word in set(WORD.findall(text)):
                out[word].add(path)
        return out

    def change(self, fault: Fault) -> Change:
        """Return the file that a fault changes, before and after. MisfitError where what it changes is not there exactly once."""
        wanted = _parsed(fault)
        holding = set(self.texts).intersection(*(self.holders.get(name, ()) for name in _names(wanted)))
        named = holding.intersection(self.holders.get(fault.where.rpartition(".")[2], ()))
        called = [f for path in sorted(named) for f in self.functions(path) if f.name == fault.where]
        found = list(_places(called, wanted)) or list(_places((f for path in sorted(holding) for f in self.functions(path)), wanted))
        if len(found) != 1:
            raise MisfitError(f"{fault.where} holds `{fault.old}` {len(found)} times")
        function, nodes = found[0]
        text = self.texts[function.path]
        return Change(function.path, text, _replaced(text, nodes, fault.new))


def _functions(path: str, text: str) -> Iterator[Function]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                yield Function(path, ".".join([node.name, *_name_of(inner)]), inner)
        else:
            yield Function(path, ".".join(_name_of(node)), node)


def _name_of(node: ast.stmt) -> list[str]:
    """Return the name that a statement defines, in a list, or nothing."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else []
    return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)][:1]


# ---------------------------------------------------------------- where

def _names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names in syntax trees: a text without one of them does not hold the trees."""
    inner = [n for node in nodes for n in ast.walk(node)]
    return {n.id for n in inner if isinstance(n, ast.Name)} | {n.attr for n in inner if isinstance(n, ast.Attribute)}


def _parsed(fault: Fault) -> list[ast.AST]:
    """Return what a fault looks for: an expression where there is one after it too, else statements."""
    old, new = ast.parse(fault.old).body, ast.parse(fault.new).body
    if len(old) == len(new) == 1 and isinstance(old[0], ast.Expr) and isinstance(new[0], ast.Expr):
        return [old[0].value]
    return [*old]


def _places(functions: Iterable[Function], wanted: list[ast.AST]) -> Iterator[tuple[Function, list[ast.AST]]]:
    """Yield (function, nodes) of each place where there are such statements, or such an expression."""
    tree = _tree(wanted)
    for f in functions:
        if len(wanted) == 1:
            yield from ((f, [node]) for node in f.pieces[type(wanted[0])] if _tree([node]) == tree)
        else:
            yield from ((f, nodes) for nodes in _runs(f.node, len(wanted)) if _tree(nodes) == tree)


def _tree(nodes: Iterable[ast.AST]) -> str:
    """Return the syntax trees as text; whether a name is read or written is no part of it."""
    text = "\n".join(ast.dump(n) for n in nodes)
    return text.replace("Store()", "Load()").replace("Del()", "Load()")


def _replaceable(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in a node that can be replaced; parts of texts with values in them have no places."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.expr, ast.stmt)) and not isinstance(child, NOT_ALONE):
            yield child
        if not isinstance(child, ast.JoinedStr):
            yield from _replaceable(child)


def _runs(node: ast.AST, length: int) -> Iterator[list[ast.AST]]:
    """Yield the runs of so many statements."""
    for n in ast.walk(node):
        for _, body in ast.iter_fields(n):
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield from (body[at:at + length] for at in range(len(body) - length + 1))


# ---------------------------------------------------------------- the change

def _replaced(text: str, nodes: list[ast.AST], new: str) -> str:
    """Return the text with other statements, or another expression, in place of nodes."""
    first, last = nodes[0], nodes[-1]
    lines = text.encode().splitlines(keepends=True)
    decorators = getattr(first, "decorator_list", [])
    line = min([first.lineno, *(d.lineno for d in decorators)])  # type: ignore[attr-defined]
    start = sum(map(len, lines[:line - 1])) + first.col_offset  # type: ignore[attr-defined]
    end = sum(map(len, lines[:last.end_lineno - 1])) + last.end_col_offset  # type: ignore[attr-defined]
    if isinstance(first, ast.stmt):
        indent = " " * first.col_offset
        put = textwrap.indent(new or "pass", indent).strip()
    else:
        put = f"({new})"
    data = text.encode()
    return (data[:start] + put.encode() + data[end:]).decode()


@cache
def sources(root: Path) -> Sources:
    """Return the sources of a checkout, read once."""
    return Sources.of(root)


def change(fault: Fault, root: Path) -> Change:
    """Return what a fault changes in a checkout: a data file by its text, else sources. MisfitError where that is not there once."""
    if "/" not in fault.where:
        return sources(root).change(fault)
    path = root / fault.where
    text = path.read_text("utf-8") if path.exists() else ""
    if text.count(fault.old) != 1:
        raise MisfitError(f"{fault.where} holds the old text {text.count(fault.old)} times")
    return Change(fault.where, text, text.replace(fault.old, fault.new))
