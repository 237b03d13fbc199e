"""The house: imports only downward, no step imports another step, numba in one place, no code from outside text."""
from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import median, quantiles

import pytest

import aoec
from aoec.bank.bank import Bank

ROOT = Path(__file__).parents[2]
STEPS = ("frontend", "lowering", "simulate", "ascendc", "hivm", "toolchain", "acl", "search", "cann", "bank", "artifact", "report",
         "standin")
LEVELS = {**dict.fromkeys(("base", "grammars", "kernels"), 0), "ir": 1, "options": 1, "ops": 2, "target": 3, "collectives": 3,
          "primitives": 4, **dict.fromkeys(STEPS, 5), "jobs": 6, "api": 7, "backend": 7, "cli": 8, "aoe": 9, "atc": 9, "__main__": 9}
UNSAFE_MODULES = {"pickle", "cPickle", "shelve", "marshal", "dill", "cloudpickle", "joblib"}
FILES = sorted(p for folder in ("aoec", "kernels", "grammars") for p in (ROOT / folder).rglob("*.py"))
CODE = FILES + sorted(p for folder in ("bench", "tests") for p in (ROOT / folder).rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(p for p in (() if parts[0] == "aoec" else ("aoec",)) + parts if p != "__init__")


@cache
def said(text: str) -> tuple[ast.AST, ...]:
    """The imports, calls of names and arguments by name in a file's text, at any depth."""
    kinds = (ast.Import, ast.ImportFrom, ast.Call, ast.keyword)
    return tuple(node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds))


def imports(path: Path) -> Iterator[str]:
    """Every module or name that a file imports, at any depth, relative ones resolved."""
    package = module_of(path).split(".") if path.name == "__init__.py" else module_of(path).split(".")[:-1]
    for node in said(path.read_text("utf-8")):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[:len(package) - node.level + 1] if node.level else []
            base = ".".join(above + ([node.module] if node.module else []))
            yield from (f"{base}.{a.name}" for a in node.names)


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == "aoec" and len(parts) > 1 else ""


def faults(path: Path) -> list[str]:
    """The rules that the imports of a file break, in words."""
    here, out = room(module_of(path)), []
    for name in imports(path):
        there = room(name)
        if name.split(".")[0] in ("numba", "llvmlite") and here != "kernels":
            out.append(f"imports {name} outside kernels/")
        if here == "kernels" and name.startswith("aoec") and there != here:
            out.append(f"imports {name}: kernels know nothing of aoec")
        if there == "kernels" and here not in ("simulate", "kernels"):
            out.append(f"imports {name}: simulate is the one door to kernels")
        if here and there in LEVELS and there != here and LEVELS[there] >= LEVELS[here]:
            out.append(f"imports {name}, which is not below {here}")
    return out


@pytest.mark.parametrize("folder", sorted({p.parent for p in FILES}), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_downward(folder: Path) -> None:
    for path in (p for p in FILES if p.parent == folder):
        here = room(module_of(path))
        assert here in LEVELS or not here, f"{path} is in no room of the list"
        assert not faults(path), path


def test_no_code_from_data() -> None:
    for path in CODE:
        assert not [n for n in imports(path) if n.split(".")[0] in UNSAFE_MODULES], path
        for node in said(path.read_text("utf-8")):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "__import__"), f"{path}:{node.lineno}"
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant) and node.value.value is False, f"{path}:{node.lineno}"


def test_packages_exist_and_are_listed() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {module_of(p) for p in FILES if p.name == "__init__.py"}
    assert folders == set(setup["packages"])


MOST_FILES = 16  # of a folder
# folders in which each file is an entry of a dictionary
OF_ONE_KIND = ("aoec/cli/commands", "aoec/frontend/passes", "aoec/frontend/rules", "aoec/ops/words", "aoec/primitives")


def test_no_folder_is_too_long_to_read() -> None:
    counts = Counter(str(p.parent.relative_to(ROOT)) for p in FILES)
    full = {f: n for f, n in counts.items() if n > MOST_FILES and f not in OF_ONE_KIND}
    assert full == {}, f"a folder holds at most {MOST_FILES} files: put the new one beside the folder, or make a folder of its own in it"
    assert set(OF_ONE_KIND) <= counts.keys()


def test_no_two_files_of_a_room_have_one_name() -> None:
    names = Counter((room(module_of(p)), p.name) for p in FILES if p.name != "__init__.py")
    assert {name for name, count in names.items() if count > 1} == set()


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The modules that import each other, by what is left when modules that import nothing of the rest, or that none of it imports, go."""
    left = {name: set(inner) for name, inner in graph.items()}
    while True:
        imported = {m for inner in left.values() for m in inner}
        ends = {name for name, inner in left.items() if not inner & left.keys() or name not in imported}
        if not ends:
            return [sorted(left)] if left else []
        left = {name: inner - ends for name, inner in left.items() if name not in ends}


def import_graph(files: Sequence[Path]) -> dict[str, set[str]]:
    """Module -> the modules that it imports, in functions and under TYPE_CHECKING too."""
    names = {module_of(p): p for p in files}
    out: dict[str, set[str]] = {}
    for name, path in names.items():
        found = {m if m in names else m.rpartition(".")[0] for m in imports(path)}
        out[name] = {m for m in found & names.keys() if m != name}
    return out


def test_no_modules_import_each_other() -> None:
    """The package itself and what starts commands import in functions what imports them: they are the ways in."""
    ways_in = {"aoec", "aoec.cli"}
    graph = {name: {m for m in inner if m not in ways_in} for name, inner in import_graph(FILES).items()}
    assert circles(graph) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


IRREGULAR = ("told made known kept found said held given shown begun drawn written taken left cut built chosen sown apart alone whole "
             "within real")
PARTICIPLE = re.compile(rf"_?(?:[a-z]+ed|{'|'.join(IRREGULAR.split())})")
OTHER_WORDS = ("need", "seed", "feed")  # which only end like a participle
RULES_OF_GRAMMARS = ("real", "slotted")  # functions of a transformer, which have the names of the grammar


def test_names_of_functions_are_verbs_or_nouns() -> None:
    """A function is `measure_trace` or `trace_ticks`, not `measured`."""
    names = [(n.name, p) for p in FILES for n in ast.walk(ast.parse(p.read_text("utf-8"))) if isinstance(n, ast.FunctionDef)]
    allowed = {*OTHER_WORDS, *RULES_OF_GRAMMARS}
    assert [(name, str(p.relative_to(ROOT))) for name, p in names if PARTICIPLE.fullmatch(name) and name.strip("_") not in allowed] == []


HEAVY = frozenset(["numpy", "onnx", "numba", "scipy", "skopt", "sqlalchemy", "lark", "rich", "asyncio", "multiprocessing"])
STARTS = {  # what a command may import of the heavy ones; everything else would be waited for in vain
    "--help": "", "bank list": "sqlalchemy asyncio", "bank best aa": "sqlalchemy asyncio", "bank export bank.jsonl": "sqlalchemy asyncio",
    "primitives": "numpy", "instructions mmad": "numpy lark", "holes": "numpy",
    "targets": "numpy lark", "fuse no.graph": "numpy lark", "lower matmul(m=64,k=64,n=64)": "numpy lark",
    "schedule {funcs}/matmul.tir --with {funcs}/matmul.sched": "numpy lark", "emit {funcs}/matmul.tir": "numpy lark",
    "completion bash": "", "import no.onnx": "numpy onnx lark", "compile no.onnx --bank bank.db": "numpy onnx lark rich",
}
SAY_IMPORTED = "import sys\nfrom aoec.cli import main\nmain(sys.argv[1:])\nprint(*sys.modules, file=sys.stderr)"


@pytest.mark.parametrize("command", STARTS)
def test_light_start(command: str, tmp_path: Path) -> None:
    """A command starts with no more than it needs: counted in modules, since times depend on the machine. A list of records needs no
    numbers and no grammar, a text no compiler; and what a refusal takes must not be more than its command takes to read."""
    Bank.open(tmp_path / "bank.db").put_all([])
    words = [w.format(funcs=ROOT / "tests/funcs") for w in command.split(" ")]
    done = subprocess.run([sys.executable, "-c", SAY_IMPORTED, *words], capture_output=True, text=True, check=True, cwd=tmp_path,
                          env={**os.environ, "TUNE_BANK_PATH": str(tmp_path / "bank.db")})
    imported = {name.split(".")[0] for name in done.stderr.splitlines()[-1].split()}
    assert imported & HEAVY <= set(STARTS[command].split())


def test_import_is_light() -> None:
    """`import aoec` imports nothing that is heavy, nor do the list of its public names and its version."""
    code = "import sys, aoec\nassert {*aoec.__all__} <= {*dir(aoec)} and aoec.__version__ != 'unknown'\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name.split(".")[0] for name in done.stdout.split()} & HEAVY
    assert "compile" in aoec.__all__ and all(getattr(aoec, name) for name in aoec.__all__)


def test_the_rules_ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule refuses a file that breaks it."""
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    bad = {"aoec/ir/a.py": "from aoec.lowering import emit", "aoec/search/a.py": "def f():\n    import aoec.simulate.timing.time",
           "aoec/bank/a.py": "from ..search import grid", "aoec/ops/a.py": "import numba", "aoec/jobs/a.py": "import aoec.kernels.tile",
           "kernels/a.py": "from aoec.base import errors", "aoec/base/a.py": "from aoec import ir"}
    for name, text in bad.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        assert faults(path), name


def test_the_longest_files_are_there() -> None:
    """What is run first is named by its file."""
    from tests.conftest import LONGEST
    assert [name for name in LONGEST if not (ROOT / "tests" / name).is_file()] == []


def alarms() -> str:
    """Lengths that ring (design 7), for `make lint`; they are for people to decide, so no test fails by them."""
    lengths = [(n.end_lineno - n.lineno + 1, f"{p.relative_to(ROOT)}:{n.name}") for p in FILES
               for n in ast.walk(ast.parse(p.read_text("utf-8"))) if isinstance(n, ast.FunctionDef) and n.end_lineno]
    files = [(len(p.read_text("utf-8").splitlines()), str(p.relative_to(ROOT))) for p in FILES]
    sizes = [n for n, _ in lengths]
    return (f"functions: {len(sizes)}, median {median(sizes)} lines (6), 95th percentile {quantiles(sizes, n=20)[-1]:.0f} (35), longest "
            + ", ".join(f"{name} {n}" for n, name in sorted(lengths, reverse=True)[:5])
            + "\nfiles over 400 lines: " + (", ".join(f"{name} {n}" for n, name in sorted(files, reverse=True) if n > 400) or "none"))


if __name__ == "__main__":
    print(alarms())
