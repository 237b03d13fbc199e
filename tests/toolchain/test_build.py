"""Sources through the stand-in's compilers: routes by probing, one build for each distinct source, errors as results, limits, crashes."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from aoec.acl.known_good import empty_source, known_good_source
from aoec.base.errors import AoecError
from aoec.base.npu_errors import CannNotFound, CompileError, UnsupportedProduct
from aoec.base.process.tool import run_tool
from aoec.standin.bisheng import FAULT, commands
from aoec.standin.toolkit import BIN, make_toolkit
from aoec.toolchain.build import Source, _kept_result, build, default_jobs, results_folder
from aoec.toolchain.find import Toolkit, find_toolkit
from aoec.toolchain.probe import ask_compiler, plan
from tests.standin.need import hear_interrupts, needs_compiler

pytestmark = needs_compiler
VECTOR = "KERNEL_TYPE_AIV_ONLY"


@pytest.fixture(autouse=True)
def own_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of this test alone; what g++ made stays where it is."""
    monkeypatch.setattr("aoec.toolchain.build.cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr("aoec.toolchain.probe.cache_folder", lambda: tmp_path / "cache")


def new_kit(tmp_path: Path, release: int) -> Toolkit:
    return find_toolkit({"ASCEND_HOME_PATH": str(make_toolkit(tmp_path / str(release), release))})


def good_source(product: int = 2201) -> Source:
    name, text, kind = known_good_source(product)
    return Source(name, text, kind, product)


def test_routes_by_release_and_product(tmp_path: Path) -> None:
    """The old release takes no --npu-arch and, here, no --cce-auto-sync; 910A has the older route alone."""
    old, new = new_kit(tmp_path, 81), new_kit(tmp_path, 91)
    assert plan(old, 2201, VECTOR).route == "cce" and plan(old, 2201, VECTOR).accepted == ()
    found = plan(new, 2201, VECTOR)
    assert (found.route, found.accepted) == ("modern", ("--cce-auto-sync=off",)) and "CANN 9.1" in found.version
    assert plan(new, 1001, "").route == "cce"
    before = len(commands(new.root))
    assert plan(new, 2201, VECTOR) == found and len(commands(new.root)) == before  # what was asked is kept
    assert ask_compiler(new).has_target
    with pytest.raises(UnsupportedProduct, match="no compile route is known for core kernels of product 3510"):
        plan(new, 3510, "KERNEL_TYPE_AICORE")


def test_each_distinct_source_is_built_once(tmp_path: Path) -> None:
    kit = new_kit(tmp_path, 91)
    name, text, kind = empty_source(2201)
    sources = [good_source(), Source(name, text, kind, 2201), good_source()] * 3
    seen: list[tuple[int, int]] = []
    made = build(sources, kit, jobs=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)] and len(set(map(str, made))) == 2 and made[0] == made[2] == made[8]
    assert all(isinstance(m, Path) and m.is_absolute() and m.stat().st_size for m in made)
    count = len(commands(kit.root))
    again = build(sources, kit)
    assert again == made and len(commands(kit.root)) == count
    other = build([Source(name, text + "// other\n", kind, 2201)], kit)[0]
    assert other not in made and len(commands(kit.root)) == count + 2


def test_results_that_cannot_be_believed_are_made_anew(tmp_path: Path) -> None:
    kit = new_kit(tmp_path, 91)
    made = build([good_source()], kit)[0]
    assert isinstance(made, Path)
    data, record = made.read_bytes(), made.with_suffix(".json")
    for path, wrong in ((made, data[:-1]), (record, b"[" * 100000)):
        path.write_bytes(wrong)
        assert build([good_source()], kit) == [made] and made.read_bytes() == data
    os.chmod(made, 0o666)  # others can have written it
    assert build([good_source()], kit) == [made] and made.stat().st_mode & 0o022 == 0
    for path, wrong in ((record, b"{"), (record, b'{"object": 1}'), (record, b'{"error": 1, "log": ""}'), (made, b"")):
        path.write_bytes(wrong)
        assert _kept_result(made, good_source()) is None
        record.write_text(json.dumps({"object": sha256(data).hexdigest()}))
    (results_folder() / "x.o").write_text("")
    os.chmod(results_folder(), 0o777)
    with pytest.raises(AoecError, match="AOEC_CACHE_DIR"):
        build([good_source()], kit)


def test_a_compile_error_is_a_result(tmp_path: Path) -> None:
    kit = new_kit(tmp_path, 91)
    bad = Source("bad", '#include "kernel_operator.h"\nnone here;\n', VECTOR, 2201)
    made = build([bad, good_source()], kit)
    assert isinstance(made[0], CompileError) and isinstance(made[1], Path)
    error, count = made[0], len(commands(kit.root))
    assert str(error).startswith("bad does not compile: bisheng ended with code 1: ") and "none" in str(error) and "\n" not in str(error)
    assert error.argv[0].endswith("bisheng") and "error:" in error.log and error.source == "bad" and not error.crash
    (again,) = build([bad], kit)
    assert isinstance(again, CompileError) and (str(again), again.argv, again.log) == (str(error), error.argv, error.log)
    assert len(commands(kit.root)) == count


def test_crashes_and_time_limits_are_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = new_kit(tmp_path, 91)
    plan(kit, 2201, VECTOR)
    for fault, words in (("crash", "ended by signal 11"), ("hang", "did not end in 1 s and was killed")):
        monkeypatch.setenv(FAULT, fault)
        start = time.monotonic()
        (made,) = build([good_source()], kit, seconds=1)
        assert isinstance(made, CompileError) and made.crash and words in str(made) and time.monotonic() - start < 10
    monkeypatch.delenv(FAULT)
    assert isinstance(build([good_source()], kit)[0], Path)


def test_a_compiler_that_does_not_even_say_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = new_kit(tmp_path, 91)
    monkeypatch.setenv(FAULT, "crash")
    with pytest.raises(CannNotFound, match="bisheng --version ended by signal 11"):
        build([good_source()], kit)
    monkeypatch.delenv(FAULT)
    (kit.root / BIN / "bisheng").write_text("#!/none/such\n")
    with pytest.raises(CannNotFound, match="cannot be started"):
        build([good_source()], kit)
    assert build([], kit) == []


def test_no_route_works(tmp_path: Path) -> None:
    """A compiler that refuses everything: what was said of both routes is in the error, and nothing is kept."""
    kit = new_kit(tmp_path, 91)
    (kit.root / BIN / "bisheng").write_text('#!/bin/sh\n[ "$1" = --version ] && echo x && exit 0\necho "error: no license" >&2\nexit 1\n')
    for _ in range(2):
        (made,) = build([good_source()], kit)
        assert isinstance(made, CompileError) and "modern: bisheng ended with code 1: error: no license" in str(made)
        assert "cce: bisheng" in made.log and not made.crash and "it lists no target hiipu64" in str(made)
    kit.tool("bisheng").unlink()
    (kit.root / "lib64/x").write_text("")
    with pytest.raises(CannNotFound, match="has no bisheng"):
        build([good_source()], find_toolkit({"ASCEND_HOME_PATH": str(kit.root), "PATH": ""}))


def test_a_command_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    script = tmp_path / "tool"
    script.write_text('#!/bin/sh\nsleep 77 &\necho $! > child\necho begun\nwait\n')
    script.chmod(0o755)
    ran = run_tool([str(script)], tmp_path, 0.5)
    assert ran.is_late and ran.is_crash and ran.output == "begun\n" and 0.4 < ran.seconds < 5
    assert is_gone(int((tmp_path / "child").read_text()))
    script.write_text("#!/bin/sh\nyes a line that is long enough to be many\n")
    ran = run_tool([str(script)], tmp_path, 20)
    assert ran.is_late and ran.seconds < 15 and len(ran.output) <= 1 << 16
    assert run_tool([str(tmp_path / "none")], tmp_path, 1).code == 127 and 1 <= default_jobs() <= 16


def is_gone(pid: int) -> bool:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]:
            return True
        time.sleep(0.02)
    return False


INTERRUPTED = """
import os, sys
from pathlib import Path
from aoec.toolchain.build import Source, build
from aoec.toolchain.find import find_toolkit
from aoec.toolchain.probe import plan
kit = find_toolkit({"ASCEND_HOME_PATH": sys.argv[1]})
plan(kit, 2201, "KERNEL_TYPE_AIV_ONLY")
os.environ["AOEC_STANDIN_BISHENG"] = "hang"
print("begun", flush=True)
build([Source(f"k{i}", "", "KERNEL_TYPE_AIV_ONLY", 2201) for i in range(6)], kit, jobs=2, seconds=500)
"""


def test_ctrl_c_ends_what_is_compiled(tmp_path: Path) -> None:
    kit = new_kit(tmp_path, 91)
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(kit.root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env={**os.environ, "AOEC_MARK": str(tmp_path)}, preexec_fn=hear_interrupts)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    time.sleep(1.0)
    running = started_with(f"AOEC_MARK={tmp_path}", process.pid)
    assert running
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=10)[1]
    assert "KeyboardInterrupt" in said and all(is_gone(p) for p in running)
    assert Counter(c[0] for c in commands(kit.root))["bisheng"] < 12  # those that waited did not start


def started_with(word: str, but: int) -> list[int]:
    """The processes whose environment has a word, but one."""
    out = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (entry / "environ").read_bytes() and int(entry.name) != but:
                out.append(int(entry.name))
        except OSError:
            continue
    return out
