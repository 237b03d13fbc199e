"""Golden cases: a `.case` file holds input files, a command, and what it must answer; `pytest --bless` writes down what it answers now.

    A sentence or two for people.
    --- run
    aoec schedule f.tir --with f.sched
    --- f.tir
    (the file's text; a section named `stdin` is what the command reads as `-`)
    --- exit 2
    --- stdout
    --- stderr
    (expected)

A case runs in an empty folder of its own, in this process.
"""
from __future__ import annotations

import atexit
import gc
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings

# `make test` asks the laws the same questions every time, half as many; HYPOTHESIS_PROFILE=random (make test-all) asks new ones, and all
settings.register_profile("same", max_examples=50, derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
if settings.get_current_profile_name() != "mutants":
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# what a run keeps for the next one is kept apart from what the user's own runs keep, and for this session only
if "AOEC_CACHE_DIR" not in os.environ:
    os.environ["AOEC_CACHE_DIR"] = tempfile.mkdtemp(prefix="aoec-tests-")
    atexit.register(shutil.rmtree, os.environ["AOEC_CACHE_DIR"], ignore_errors=True)

# schedules that come with aoec would answer what a test asks a search for; those that want them say so
os.environ["AOEC_BASE_BANK"] = "none"

# a fault of aoec in one group ends no user's job: the group runs on the host, and says so; in tests it is seen as what it is
os.environ["AOEC_RAISE_FAULTS"] = "1"

# where an environment forbids bytecode, every process would compile all sources again; it lies in __pycache__, as Numba's kernels do
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# processes that share the cores have one thread each for products of large matrices: those of a second one spin while they wait for the
# first, in the other process's time (the zoo's tests take 26 CPU s with two, 16 with one); NumPy asks when it is first imported
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# a test process makes some hundred million objects, few of them garbage in cycles: to look for these as often as Python does by default
# took a fifth of the tests' time, and to look through all that is old, a twelfth
gc.set_threshold(500_000, 1_000, 1_000)

HEAD = re.compile(r"^--- (\S+)(?: (\d+))?\n", re.MULTILINE)


# Files that take longest come first, so that at the end no process is alone with one of them: of files, --dist loadfile hands out
# the next whole one (make test; --no-loadscope-reorder keeps it from putting those of few tests last, which models are).
# In a fresh clone the kernels are compiled, which takes one to two minutes: the first process does most of that, with one test of each law
# of the longest file of all, while the other takes the files that need no kernel, and finds them on disk when it comes to those that do;
# those of proofs it compiles.
WITHOUT_KERNELS = ("search/test_strategies.py", "laws/test_text_laws.py", "frontend/test_zoo.py", "laws/test_house.py",
                   "laws/test_text_rewrite_laws.py", "cli/test_bad_input.py", "laws/test_search_laws.py", "laws/test_bank_laws.py",
                   "laws/test_flat_laws.py", "frontend/test_operators.py")
LONGEST = (
    "laws/test_emit_laws.py", *WITHOUT_KERNELS, "laws/test_coupled.py", "jobs/test_compile.py", "lowering/test_odd_shapes.py",
    "laws/test_same_bytes.py", "docs/test_readme.py", "jobs/test_dump.py", "search/test_prove.py", "models/test_resnet50.py",
    "laws/test_folds.py", "jobs/test_resume.py", "models/test_bert.py", "jobs/test_sgat.py", "base/test_source_meaning.py",
    "packaging/test_wheel.py",
    "bench/test_every_program.py", "jobs/test_calibrate.py", "jobs/test_slices.py", "cli/test_first_contact.py", "target/test_chips.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {Path(__file__).parent / name: at for at, name in enumerate(LONGEST)}
    laws = {item.originalname: item for item in reversed(items) if isinstance(item, pytest.Function) and place.get(item.path) == 0}
    first = set(laws.values())  # of each law of the longest file one: together they need all kernels
    items.sort(key=lambda item: (place.get(item.path, len(place)), place.get(item.path) == 0 and item not in first))


def pytest_collection_finish() -> None:
    gc.freeze()  # tests and modules stay; nobody need look at them again


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Searches that are small enough for laws about jobs: `pytestmark = pytest.mark.usefixtures("small")`."""
    from tests.jobs.small import small_searches
    with small_searches():
        yield


@pytest.fixture(scope="module")
def few(small: None) -> Iterator[None]:
    """Small searches of few sketches, for laws that do not hang on which schedule is found."""
    from tests.jobs.small import few_sketches
    with few_sketches():
        yield


@pytest.fixture(scope="module")
def poor(small: None) -> Iterator[None]:
    """Small searches that find what is better than the default."""
    from tests.jobs.small import poor_defaults
    with poor_defaults():
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write what golden cases answer now into their files; read the diff")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return CaseFile.from_parent(parent, path=file_path) if file_path.suffix == ".case" else None


class CaseFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield Case.from_parent(self, name=self.path.stem)


class Mismatch(Exception):
    """What was expected and what came."""


class Case(pytest.Item):
    """One command and its answer."""

    def runtest(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        given, expected = split(text)
        answer = run(given)
        if self.config.getoption("--bless"):
            self.path.write_text(text[:len(text) - len(expected)] + answer, encoding="utf-8")
        elif answer != expected:
            raise Mismatch(f"{self.path.name}: expected\n{expected}\ncame\n{answer}\n(pytest --bless writes it down)")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        return str(excinfo.value) if isinstance(excinfo.value, Mismatch) else str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"golden: {self.name}"


def split(text: str) -> tuple[dict[str, str], str]:
    """Section name -> text for what is given, and the text of the answer, from `--- exit` to the end."""
    heads = list(HEAD.finditer(text))
    ends = [h.start() for h in heads[1:]] + [len(text)]
    given: dict[str, str] = {}
    for head, end in zip(heads, ends):
        if head[1] == "exit":
            return given, text[head.start():]
        given[head[1]] = text[head.end():end]
    return given, ""


def run(given: dict[str, str]) -> str:
    """The answer of the case's command as a case writes it."""
    from aoec.cli import main

    program, *arguments = shlex.split(given["run"])
    assert program == "aoec", "a case runs aoec"
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    stdin = io.TextIOWrapper(io.BytesIO(given.get("stdin", "").encode()), encoding="utf-8")
    own = {"TUNE_BANK_PATH": "bank", "COLUMNS": "120"}
    with (tempfile.TemporaryDirectory() as folder, chdir(folder), mock.patch("sys.stdin", stdin), mock.patch.dict(os.environ, own),
          redirect_stdout(out), redirect_stderr(err)):
        for name, content in given.items():
            if name not in ("run", "stdin"):
                Path(name).write_text(content, encoding="utf-8")
        try:
            code = main(arguments)
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return f"--- exit {code}\n--- stdout\n{said[0]}--- stderr\n{said[1]}"
