"""The source distribution holds all that is needed to read, test and build aoec. The wheel built of it, installed alone, works in an empty
directory without the checkout."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import onnx
import pytest

from aoec.frontend import zoo

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", ".git", ".venv", ".*_cache", ".hypothesis", "build", "dist")  # of the tree


def take_compiled(kernels: Path) -> None:
    """Nothing; what Numba has compiled of the checkout's kernels is taken for the same sources elsewhere, which saves a minute. It
    goes by a source's time and size; where there is nothing yet, they are compiled."""
    for source in (ROOT / "kernels").glob("*.py"):
        os.utime(kernels / source.name, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
    if (compiled := ROOT / "kernels" / "__pycache__").exists():
        shutil.copytree(compiled, kernels / "__pycache__", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.pyc"))


class Installed:
    """An environment that holds the wheel and sees the dependencies of this one, and an empty directory to work in."""

    def __init__(self, wheel: Path, sdist: Path, home: Path) -> None:
        self.wheel, self.sdist, self.work = wheel, sdist, home / "work"
        self.work.mkdir()
        venv.create(home / "env", symlinks=True)
        self.bin = home / "env" / "bin"
        site = next((home / "env" / "lib").glob("python*/site-packages"))
        words = ["-m", "pip", "--python", self.bin / "python", "install", "-q", "--no-deps", "--no-index", wheel]  # by the pip of this one
        subprocess.run([sys.executable, *words], check=True, cwd=home)
        others = [p for p in sys.path if p.endswith("site-packages") and p != str(site)]  # .pth files there (editable aoec) are not read
        (site / "dependencies.pth").write_text("\n".join(others) + "\n")
        take_compiled(site / "aoec" / "kernels")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TUNE_", "NUMBA_"))}
        self.environment |= {"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def shell(self, command: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        words = ["bash", "-o", "pipefail", "-c", command]
        return subprocess.run(words, cwd=self.work, env=self.environment, capture_output=True, text=True, timeout=timeout)

    def ok(self, command: str) -> str:
        done = self.shell(command)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    home = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, home / "tree", ignore=LEFT_OUT, symlinks=True)
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check", "-o", home / "dist", home / "tree"],
                   check=True, capture_output=True)  # a source distribution, and a wheel of that
    yield Installed(*(next((home / "dist").glob(f"*.{kind}")) for kind in ("whl", "tar.gz")), home)


def test_wheel_holds_everything(installed: Installed) -> None:
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    for folder, package in (("aoec", "aoec"), ("kernels", "aoec/kernels"), ("grammars", "aoec/grammars")):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".lark", ".toml", ".rules", ".html", ".css", ".js", ".json") and "__pycache__" not in path.parts:
                assert f"{package}/{path.relative_to(ROOT / folder)}" in names
    assert not [n for n in names if n.startswith(("tests", "bench"))]


def test_wheel_says_what_it_is(installed: Installed) -> None:
    """To a package index: its licence and its page, which has no links into the checkout; and to type checkers, that it has types."""
    with zipfile.ZipFile(installed.wheel) as file:
        (where,) = {n.partition("/")[0] for n in file.namelist() if ".dist-info/" in n}
        metadata = message_from_bytes(file.read(f"{where}/METADATA"))
        assert file.read(f"{where}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        assert "aoec/py.typed" in file.namelist()
    assert (metadata["Name"], metadata["License-Expression"], metadata["Author"]) == ("aoec", "Apache-2.0", "aoec contributors")
    assert metadata["Description-Content-Type"] == "text/markdown" and "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert {"verify", "completion", "dev"} <= set(metadata.get_all("Provides-Extra", []))
    page = str(metadata.get_payload())
    assert page.startswith("# aoec\n") and "## How accurate is it?" in page
    assert [link for link in re.findall(r"\]\(([^)]*)\)", page) if "://" not in link] == []


def test_source_distribution_holds_what_is_needed(installed: Installed) -> None:
    with tarfile.open(installed.sdist) as file:
        names = {n.partition("/")[2] for n in file.getnames()}
    wanted = [p for folder in ("aoec", "kernels", "grammars", "docs", "bench", "tests", "locks") for p in (ROOT / folder).rglob("*")
              if p.is_file() and "__pycache__" not in p.parts]
    wanted += [ROOT / f"{name}.md" for name in ("README", "README.zh", "CHANGELOG", "CONTRIBUTING")]
    wanted += [ROOT / name for name in ("LICENSE", "Makefile", "Dockerfile")]
    assert len(wanted) > 500 and [p for p in wanted if p.relative_to(ROOT).as_posix() not in names] == []
    assert not [n for n in names if "__pycache__" in n or ".venv" in n or n.endswith((".pyc", ".nbc", ".nbi"))]


def test_the_package_names_what_is_public(installed: Installed) -> None:
    code = "import aoec; print(*[n for n in dir(aoec) if not n.startswith('__')], aoec.__version__)"
    said = installed.ok(f'python -c "{code}"').split()
    assert said == ["AoecError", "Session", "backend", "compile", installed.wheel.name.split("-")[1]]


def test_doctor_sees_the_wheel(installed: Installed) -> None:
    facts = json.loads(installed.ok("aoec doctor --json"))
    assert facts["versions"]["aoec"] and str(installed.bin.parent) in facts["kernels"]["cache"]
    assert str(installed.work.parent / "data") in facts["bank"]["path"]
    places = installed.ok("python -c 'import aoec.kernels as k, aoec.grammars as g, aoec as a; print(a.__path__, k.__path__, g.__path__)'")
    assert str(ROOT) not in places


def first_lines(installed: Installed, command: str, count: int) -> tuple[float, list[str]]:
    """(seconds until the last of the first `count` lines on standard error, those lines); the command is stopped then."""
    start = time.perf_counter()
    process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=installed.work, env=installed.environment, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    lines = [process.stderr.readline().rstrip() for _ in range(count)]
    seconds = time.perf_counter() - start
    process.terminate()
    process.communicate()
    return seconds, lines


def test_first_contact(installed: Installed) -> None:
    """The first lines come within two seconds (the best of three: the machine may be busy) and say what was taken for granted."""
    onnx.save(zoo.tiny_resnet(), installed.work / "model.onnx")
    seconds, lines = min(first_lines(installed, "aoec compile --tune model.onnx", 5) for _ in range(3))
    said = "\n".join(lines)
    assert seconds < 2, said
    for words in ("model.onnx", "29 nodes of 7 operators", "inputs data [1, 3, 32, 32]", "run as fp16", "(--precision)",
                  "target Ascend910B3 (default; --target, see aoec targets)", f"bank {installed.work.parent}/data/aoec/bank.db"):
        assert words in said


def test_an_unbound_dimension_is_answered_with_the_command_to_type(installed: Installed) -> None:
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, "length"]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), installed.work / "free.onnx")
    done = installed.shell("aoec import free.onnx -o free.graph")
    command = done.stderr.strip().rpartition("example: ")[2]
    assert done.returncode == 2 and command.startswith("aoec import free.onnx -o free.graph --input-shape x:1,")
    installed.ok(command)


def test_research_tour(installed: Installed) -> None:
    """Lower, search, schedule, emit, simulate; a smaller tile changes the cycles."""
    installed.ok('aoec lower "matmul(m=256, k=256, n=256, fp16)" -o g.tir && aoec search g.tir --budget 50 -o g.sched')
    pipe = "aoec schedule g.tir --with {} | aoec emit - | aoec simulate - --json"
    found = json.loads(installed.ok(pipe.format("g.sched")))
    assert found["kind"] == "modelled" and found["cycles"] > 0
    text = (installed.work / "g.sched").read_text()
    edited = re.sub(r"split\(loop=m_u, factor=\d+", "split(loop=m_u, factor=16", text)
    (installed.work / "e.sched").write_text(edited)
    assert edited != text and json.loads(installed.ok(pipe.format("e.sched")))["cycles"] != found["cycles"]


@pytest.mark.slow
def test_deploy_tour(installed: Installed) -> None:
    """Compile with tuning, run; the second compile searches nothing and writes the same bytes."""
    onnx.save(zoo.tiny_resnet(), installed.work / "model.onnx")
    first = json.loads(installed.ok("aoec compile --tune model.onnx --budget 50 --json"))
    assert first["trials"] > 0 and (installed.work / "model.aoec").exists()
    again = json.loads(installed.ok("aoec compile --tune model.onnx --budget 50 --json -o again.aoec"))
    assert again["trials"] == 0 and (installed.work / "again.aoec").read_bytes() == (installed.work / "model.aoec").read_bytes()
    assert "modelled" in installed.ok("aoec run model.aoec --random -o out.npz")
    assert zipfile.is_zipfile(installed.work / "out.npz")


@pytest.mark.slow
def test_a_type_checker_knows_the_types(installed: Installed) -> None:
    (installed.work / "user.py").write_text("import aoec\nreveal_type(aoec.Session('m').get_inputs())\nreveal_type(aoec.__version__)\n"
                                            "aoec.compile(3.5)\n")
    words = ["-m", "mypy", "--python-executable", str(installed.bin / "python"), "--cache-dir", str(installed.work / "cache"), "user.py"]
    said = subprocess.run([sys.executable, *words], cwd=installed.work, capture_output=True, text=True, env=installed.environment).stdout
    assert 'Revealed type is "list[aoec.api.NodeArg]"' in said.replace("builtins.", "") and 'is "str"' in said.replace("builtins.", "")
    assert 'Argument 1 to "compile" has incompatible type "float"' in said, said
