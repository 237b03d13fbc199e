"""ONNX's backend tests through aoec.backend: which pass, which run wholly on the AI Core, which are refused and why.

    python bench/nodes.py [-k PATTERN] [--list] [--stride N] [--write]

It runs all tests of the kinds node, simple, pytorch-converted and pytorch-operator of the onnx package. Each has the tolerance that it
states. --list prints a line for each test. --write makes docs/operators.md from a run of all of them. A test is *known* where its data are
those of ONNX's reference, and both onnxruntime and we differ from them. aoec/frontend/differences.py lists these differences. The exit code
is 1 where a value is wrong.
"""
from __future__ import annotations

import argparse
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
warnings.simplefilter("ignore")

import onnx  # noqa: E402
import onnxruntime as ort  # noqa: E402
from onnx.backend.test.case.test_case import TestCase  # noqa: E402
from onnx.backend.test.loader import load_model_tests  # noqa: E402
from onnx.backend.test.runner import Runner  # noqa: E402

from aoec import backend  # noqa: E402
from aoec.base.errors import AoecError  # noqa: E402
from aoec.frontend import differences  # noqa: E402
from aoec.frontend.read.versions import opset  # noqa: E402
from aoec.jobs.version import model_version  # noqa: E402

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
SECONDS = 60  # of CPU time, that one test may take
STATUSES = ("passed", "known", "refused", "wrong", "fault")  # refused: an AoecError, which is one sentence; fault: any other exception
RANDOM = frozenset(("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"))
DOCUMENT = HERE.parent / "docs/operators.md"


@dataclass(frozen=True)
class Outcome:
    """What became of a test. `operators`: those of its model, in subgraphs too; `host`: the operators of nodes on the host; `notes`: why it
    did not pass, or why its groups run on the host; `seconds` of CPU time."""

    name: str
    operators: frozenset[str]
    status: str
    host: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Return True where all of it ran on the AI Core, with the right values."""
        return self.status == "passed" and not self.host


def core_operators() -> frozenset[str]:
    """Return the operators that are the AI Core's, as bench/nodes_core.txt lists them."""
    lines = (HERE / "nodes_core.txt").read_text("utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def tests(pattern: str = "", stride: int = 1) -> list[TestCase]:
    """Return ONNX's tests whose names contain the pattern, each `stride`-th of them."""
    return [t for t in _every_test() if pattern in t.name][::stride]


@lru_cache(maxsize=1)
def _every_test() -> list[TestCase]:
    """Return all of them, made once: ONNX makes their data anew each time."""
    return [t for kind in KINDS for t in load_model_tests(kind=kind)]


def model_of(test: TestCase) -> onnx.ModelProto:
    """Return the model of a test, which some have in a folder."""
    return test.model or onnx.load(Path(test.model_dir) / "model.onnx")


# ---------------------------------------------------------------- one test

def outcome(test: TestCase) -> Outcome:
    """Return the outcome of a test through the backend."""
    model = model_of(test)
    operators, began = frozenset(operators_of(model.graph)), time.process_time()
    host: tuple[str, ...] = ()
    status, notes = "passed", ()
    try:
        prepared = backend.prepare(model)
        for inputs, wanted in data_sets(test, model):
            got = list(prepared.run(inputs))  # some models are compiled only now
            host, notes = prepared.on_host, tuple(f"{g}: {why}" for g, why in prepared.reasons.items())
            try:
                compare(test, wanted, got, bool(operators & RANDOM))
            except AssertionError:
                if not (known := known_difference(test, model, inputs, got)):
                    raise
                status, notes = "known", (known,)
    except AoecError as e:
        status, notes = "refused", (first_line(e),)
    except AssertionError as e:
        status, notes = "wrong", (" ".join(str(e).split())[:300],)
    except Exception as e:  # whatever it is, it is noted, and is a fault of ours
        status, notes = "fault", (f"{type(e).__name__}: {first_line(e)}",)
    return Outcome(test.name, operators, status, host, notes, time.process_time() - began)


def compare(test: TestCase, wanted: Any, got: Any, random: bool) -> None:
    """Raise AssertionError where values differ by more than the test allows, or shapes and types where values are random."""
    if isinstance(wanted, (list, tuple)):
        assert isinstance(got, (list, tuple)) and len(got) == len(wanted), f"{len(wanted)} values are wanted, and {got} is given"
        for w, g in zip(wanted, got):
            compare(test, w, g, random)
    elif random:
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), f"{wanted.dtype}{wanted.shape} is wanted: {got.dtype}{got.shape}"
    else:
        assert got is not None, "a value is wanted, and none is given"
        Runner.assert_similar_outputs([wanted], [got], test.rtol, test.atol)


def known_difference(test: TestCase, model: onnx.ModelProto, inputs: Sequence[Any], got: Any) -> str:
    """Return the place of the table by which ONNX's data differ from onnxruntime and from us, or nothing: where these two do not agree,
    too."""
    found = [d.when for n in model.graph.node for d in differences.of_node(n, opset(model), {}) if not d.onnxruntime_differs]
    if not found:
        return ""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    try:
        compare(test, session.run(None, {i.name: x for i, x in zip(session.get_inputs(), inputs)}), got, False)
    except AssertionError:
        return ""
    return found[0]


def first_line(e: Exception) -> str:
    return (str(e).splitlines() or ["no message"])[0][:300]


def operators_of(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the operator of every node, in subgraphs too."""
    for n in graph.node:
        yield n.op_type if n.domain in ("", "ai.onnx") else f"{n.domain}.{n.op_type}"
        for a in n.attribute:
            for sub in (*([a.g] if a.HasField("g") else []), *a.graphs):
                yield from operators_of(sub)


def data_sets(test: TestCase, model: onnx.ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield (inputs, wanted outputs) of each data set of a test."""
    if test.data_sets is not None:
        for inputs, outputs in test.data_sets:
            yield [plain(x) for x in inputs], [plain(x) for x in outputs]
        return
    for folder in sorted(Path(test.model_dir).glob("test_data_set*")):
        yield read(folder, "input", [i.type for i in model.graph.input]), read(folder, "output", [o.type for o in model.graph.output])


def plain(x: Any) -> Any:
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def read(folder: Path, what: str, types: Sequence[onnx.TypeProto]) -> list[Any]:
    """Return the values that a data set has as files."""
    return [value((folder / f"{what}_{i}.pb").read_bytes(), types[i]) for i in range(len(list(folder.glob(f"{what}_*.pb"))))]


def value(data: bytes, of: onnx.TypeProto) -> Any:
    """Return the value of a type in its ONNX serialisation."""
    kind = of.WhichOneof("value")
    proto, take = {"tensor_type": (onnx.TensorProto(), onnx.numpy_helper.to_array),
                   "sequence_type": (onnx.SequenceProto(), onnx.numpy_helper.to_list),
                   "optional_type": (onnx.OptionalProto(), onnx.numpy_helper.to_optional)}[kind]
    proto.ParseFromString(data)
    return take(proto)


# ---------------------------------------------------------------- what is said

def share(outcomes: Sequence[Outcome], operators: frozenset[str]) -> tuple[int, int]:
    """Return (tests that run wholly on the AI Core, tests) of those that contain one of the operators."""
    found = [o for o in outcomes if o.operators & operators]
    return sum(o.whole for o in found), len(found)


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Return counts, as lines."""
    counts = Counter(o.status for o in outcomes)
    whole, found = share(outcomes, core_operators())
    return [f"{len(outcomes):,} tests: " + ", ".join(f"{counts[s]:,} {s}" for s in STATUSES),
            f"{sum(o.whole for o in outcomes):,} wholly on the AI Core; of the {found:,} that contain an operator of the AI Core's list "
            f"{whole:,} ({100 * whole / max(1, found):.1f} %)"]


def rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a row an operator: its tests, how many passed, ran wholly on the AI Core, had a node on the host."""
    core = core_operators()
    yield "| operator | list | tests | passed | wholly on the AI Core | with host nodes |"
    yield "|---|---|---:|---:|---:|---:|"
    for op in sorted({op for o in outcomes for op in o.operators}):
        of = [o for o in outcomes if op in o.operators]
        yield (f"| {op} | {'AI Core' if op in core else ''} | {len(of)} | {sum(o.status == 'passed' for o in of)} | "
               f"{sum(o.whole for o in of)} | {sum(bool(o.host) for o in of)} |")


def document(outcomes: Sequence[Outcome]) -> str:
    """Return the text of docs/operators.md."""
    refused = [o for o in outcomes if o.status != "passed"]
    host = Counter(op.removeprefix("host.") for o in outcomes for op in o.host)
    return "\n".join([
        "# Operators: ONNX's backend tests through `aoec.backend`", "",
        "This page says for each ONNX operator whether it runs on the AI Core, for those who want to know it of a model before they try.",
        f"`python bench/nodes.py --write` makes it again from the tests of onnx {onnx.__version__}: node, simple, pytorch-converted, "
        "pytorch-operator.", "",
        "A test counts for every operator that its model contains, not only for the one that it is about.", "",
        *(f"- {line}" for line in summary(outcomes)),
        f"- found with aoec {version('aoec')}, model version {model_version()}", "",
        "## By operator", "", *rows(outcomes), "",
        f"## Not passed ({len(refused)})", "", *(f"- {o.name} ({o.status}): {'; '.join(o.notes)}" for o in refused), "",
        "## Where ONNX, onnxruntime and aoec differ", "",
        "ONNX's text, its reference and onnxruntime disagree in places, or ONNX says nothing. aoec gives what PyTorch and",
        "onnxruntime compute; where these two differ, what the last column says. A compiled model is held against onnxruntime;",
        "where that differs by a place of this table, against the operators' references. `python bench/operators.py` found them.", "",
        *differences.rows(), "",
        "## Operators that ran on the host", "", "The number in brackets says how many nodes of all tests ran there.", "",
        ", ".join(f"{op} ({n})" for op, n in sorted(host.items())), ""])


def line(o: Outcome) -> str:
    """Return a test, as a line."""
    where = f"host: {', '.join(o.host)}" if o.host else "AI Core" if o.whole else ""
    return f"{o.status:8} {o.seconds:6.2f} s  {o.name}  {where}  {'; '.join(o.notes)}"


class TooLong(Exception):
    """A test took longer than it may."""


def _too_long(*_: object) -> None:
    raise TooLong(f"more than {SECONDS} s of CPU time")


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("-k", dest="pattern", default="", help="only tests whose names contain this")
    p.add_argument("--stride", type=int, default=1, help="only each n-th test")
    p.add_argument("--list", action="store_true", help="a line a test")
    p.add_argument("--core", action="store_true", help="with --list: only tests of the AI Core's operators that do not run wholly on it")
    p.add_argument("--write", action="store_true", help="write docs/operators.md")
    options = p.parse_args()
    if options.write and (options.pattern or options.stride > 1):
        p.error("--write takes all tests")
    outcome(tests("test_add")[0])  # compiles the kernels, where nothing else has yet
    signal.signal(signal.SIGPROF, _too_long)
    outcomes = []
    for test in tests(options.pattern, options.stride):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        o = outcome(test)
        signal.setitimer(signal.ITIMER_PROF, 0)
        outcomes.append(o)
        if (options.list or o.status in ("wrong", "fault")) and not (options.core and (o.whole or not o.operators & core_operators())):
            print(line(o), flush=True)
    print("\n".join(summary(outcomes)))
    if options.write:
        DOCUMENT.write_text(document(outcomes), "utf-8")
    return int(any(o.status in ("wrong", "fault") for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
