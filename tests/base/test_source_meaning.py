"""The hash of what sources mean: equal after changes of names, places, prose and types, another one after each listed fault."""
from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from aoec.base.source_meaning import hash_sources, imported_by
from aoec.jobs.version import TIMING, model_sources, model_version, version_of
from tests.mutants.faults import FAULTS
from tests.mutants.find import change

ROOT = Path(__file__).parents[2]
SOURCES = model_sources()
ROOMS = ("aoec.ops", "aoec.primitives")  # that are changed in tests of the changes themselves
ROOM = {name: text for name, text in SOURCES.items() if name.startswith(ROOMS)}
RANDOM = np.random.default_rng(3)
PARTS = 8  # of the faults, a test each; they are found when such a test runs, for each process collects all tests
QUICK = (0, 3, 6)  # the parts that `make test` asks of


@cache
def room_hash() -> str:
    return hash_sources(ROOM)


def module_of(path: str) -> str:
    parts = Path(path).with_suffix("").parts
    return ".".join(("aoec", *parts) if parts[0] == "kernels" else parts)


@cache
def timed() -> frozenset[str]:
    """The modules that decide a time."""
    return frozenset(imported_by(SOURCES, [name for name in SOURCES if name.startswith(TIMING)]))


def changes(part: int, parts: int) -> list[tuple[str, str, str]]:
    """The name, the module and the text of each fault of a part in what decides a time."""
    made = [(f.name, change(f, ROOT)) for f in [f for f in FAULTS if "/" not in f.where][part::parts]]
    return [(name, module_of(c.path), c.after) for name, c in made if module_of(c.path) in timed()]


@cache
def hash_module(name: str) -> str:
    return hash_sources({name: SOURCES[name]})


# ---------------------------------------------------------------- what does not count

def functions(text: str) -> list[ast.FunctionDef]:
    return [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]


def test_functions_have_other_names() -> None:
    """Fifty at once, wherever they are named."""
    all_ = [f.name for text in ROOM.values() for f in functions(text)]
    text = "".join(ROOM.values())
    alone = sorted(name for name in set(all_) if len(name) > 6 and all_.count(name) == 1 and not re.search(rf"\.{name}\b", text))
    chosen = {str(n): f"renamed_{at}" for at, n in enumerate(RANDOM.choice(alone, 50, replace=False))}
    word = re.compile(rf"(?<![\"'\w])({'|'.join(chosen)})\b")
    renamed = {name: word.sub(lambda m: chosen[m[1]], text) for name, text in ROOM.items()}
    assert sum(renamed[n] != ROOM[n] for n in ROOM) > 10 and hash_sources(renamed) == room_hash()


def test_local_names_are_others() -> None:
    text = "def f(a, *, b=2):\n    c = [a + x for x in range(b)]\n    return sum(c)\n"
    other = "def f(left, *, right=2):\n    all_ = [left + each for each in range(right)]\n    return sum(all_)\n"
    assert hash_sources({"m": text}) == hash_sources({"m": other}) != hash_sources({"m": text.replace("a + x", "x + x")})


def imports_of(text: str) -> str:
    return "\n".join(ast.unparse(n) for n in ast.parse(text).body if isinstance(n, (ast.Import, ast.ImportFrom)))


@pytest.mark.parametrize("module", ["aoec.primitives.nest", "aoec.primitives.patterns", "aoec.ops.words.layout", "aoec.ops.declare"])
def test_files_are_split_and_functions_lie_elsewhere(module: str) -> None:
    """Every second function lies in another file. Each file imports what it needs of the other."""
    moved = functions(ROOM[module])[::2]
    rest = [n for n in ast.parse(ROOM[module]).body if not isinstance(n, ast.FunctionDef) or n.name not in {m.name for m in moved}]
    names = [n.name for n in rest if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    names += [t.id for n in rest if isinstance(n, (ast.Assign, ast.AnnAssign)) for t in ast.walk(n)
              if isinstance(t, ast.Name) and isinstance(t.ctx, ast.Store)]
    back = f"from {module} import {', '.join(names)}\n" if names else ""
    there = f"{imports_of(ROOM[module])}\n{back}" + "\n".join(ast.unparse(m) for m in moved)
    here = "\n".join(ast.unparse(n) for n in rest) + f"\nfrom aoec.primitives.elsewhere import {', '.join(m.name for m in moved)}\n"
    assert len(moved) > 1
    assert hash_sources({**ROOM, module: here, "aoec.primitives.elsewhere": there}) == room_hash()


class Reworded(ast.NodeTransformer):
    """Other docstrings and messages, no types."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        for a in (*node.args.args, *node.args.kwonlyargs):
            a.annotation = None
        if ast.get_docstring(node):
            node.body[0] = ast.Expr(ast.Constant("Do something else."))
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call) and node.exc.args:
            node.exc.args[0] = ast.Constant("it is not so")
        return node


def test_prose_and_types_are_others() -> None:
    reworded = {name: ast.unparse(Reworded().visit(ast.parse(text))) for name, text in ROOM.items()}
    assert sum(len(text) for text in reworded.values()) < 0.9 * sum(len(text) for text in ROOM.values())
    assert hash_sources(reworded) == room_hash()


# ---------------------------------------------------------------- what counts

@pytest.mark.parametrize("before, after", [
    ("x + 1", "x + 2"), ("f(x)", "g(x)"), ("x.first", "x.second"), ("x, 'vadd'", "x, 'vsub'"), ("np.add(x)", "np.subtract(x)"),
    ("f(x, a=1)", "f(x, b=1)"), ("[y for y in x if y]", "[y for y in x]")])
def test_code_counts(before: str, after: str) -> None:
    text = ("import numpy as np\nclass P:\n    first: int\n    second: int\ndef f(x, a=0, b=0):\n    return a - b + x\n"
            "def g(x):\n    return -x\ndef h(x):\n    return {}\n")
    assert hash_sources({"m": text.format(before)}) != hash_sources({"m": text.format(after)})


@pytest.mark.parametrize("names", ["A, B, C = 1, 2, 3", "A, B, C = (1 << k for k in range(3))"])
def test_names_of_one_statement_are_told_apart(names: str) -> None:
    found = {hash_sources({"m": f"{names}\ndef f(x):\n    return x + {name}\n"}) for name in "ABC"}
    assert len(found) == 3


def test_what_is_referred_to_counts_at_any_distance() -> None:
    chain = "".join(f"def f{i}(x):\n    return f{i + 1}(x)\ndef g{i}(x):\n    return g{i + 1}(x)\n" for i in range(12))
    chain += "def f12(x):\n    return x\ndef g12(x):\n    return -x\n"
    one, other = (hash_sources({"m": f"{chain}def h(x):\n    return {name}(x)\n"}) for name in ("f0", "g0"))
    assert one != other


@pytest.mark.parametrize("part", [pytest.param(p, marks=[pytest.mark.slow] * (p not in QUICK)) for p in range(PARTS)])
def test_each_fault_changes_its_module(part: int) -> None:
    made = changes(part, PARTS)
    assert len(made) > 20
    for fault, module, after in made:
        assert hash_module(module) != hash_sources({module: after}), fault


def changes_the_version(fault: str, module: str, after: str) -> None:
    assert version_of({**SOURCES, module: after}) != model_version(), fault


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_each_fault_changes_the_version(part: int) -> None:
    for each in changes(part, PARTS):
        changes_the_version(*each)


def test_a_fault_changes_the_version() -> None:
    changes_the_version(*changes(0, 60)[0])


def test_the_sources_are_those_that_timing_imports() -> None:
    timing = [name for name in SOURCES if name.startswith(TIMING)]
    found = imported_by(SOURCES, timing)
    assert {*timing, "aoec.base.ticks", "aoec.base.errors"} <= set(found) and "aoec.base.source_meaning" not in found
