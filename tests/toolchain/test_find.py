"""Toolkits are found by variables and default roots, in old and new layouts; what is not there is said with all that was looked at."""
from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.base.npu_errors import CannNotFound
from aoec.toolchain.find import SPELLINGS, Toolkit, find_toolkit, spelling

BIN = "compiler/ccec_compiler/bin"


def tree(root: Path, *files: str) -> Path:
    for f in files:
        (root / f).parent.mkdir(parents=True, exist_ok=True)
        (root / f).write_text("")
        os.chmod(root / f, stat.S_IRWXU)
    return root


def test_no_toolkit(tmp_path: Path) -> None:
    with pytest.raises(CannNotFound) as caught:
        find_toolkit({"HOME": str(tmp_path), "PATH": ""})
    said = str(caught.value)
    for part in ("ASCEND_HOME_PATH is not set", "ASCEND_TOOLKIT_HOME is not set", f"{tmp_path}/Ascend/latest (no folder)", "libacl_rt.so",
                 "bisheng", "set_env.sh", "npu-smi info", "emit, check, simulate", "/usr/local/Ascend/ascend-toolkit/latest"):
        assert part in said, part
    (tmp_path / "empty").mkdir()
    with pytest.raises(CannNotFound, match=r"ASCEND_HOME_PATH is .*/empty, .*/empty of ASCEND_HOME_PATH \(holds neither library nor"):
        find_toolkit({"ASCEND_HOME_PATH": str(tmp_path / "empty")})


def test_a_toolkit_without_a_compiler(tmp_path: Path) -> None:
    found = find_toolkit({"ASCEND_HOME_PATH": str(tree(tmp_path / "cann", "lib64/libascendcl.so")), "PATH": ""})
    assert found.compiler is None and [p.name for p in found.libraries] == ["libascendcl.so"]
    with pytest.raises(CannNotFound, match=rf"CANN at .*/cann \(release unknown\) has no bisheng; tried .*/{BIN}, .*PATH; install"):
        found.tool("bisheng")


def test_the_first_variable_that_names_one_wins(tmp_path: Path) -> None:
    one, other = (tree(tmp_path / n, "lib64/libascendcl.so") for n in ("one", "other"))
    assert find_toolkit({"ASCEND_HOME_PATH": str(one), "ASCEND_TOOLKIT_HOME": str(other)}).root == one
    assert find_toolkit({"ASCEND_HOME_PATH": str(tmp_path / "none"), "ASCEND_TOOLKIT_HOME": str(other)}).root == other
    tree(tmp_path / "Ascend/8.5", "lib64/libascendcl.so")
    os.symlink("8.5", tmp_path / "Ascend/latest")
    assert find_toolkit({"HOME": str(tmp_path)}).root == tmp_path / "Ascend/latest"
    with pytest.raises(CannNotFound):  # what is set is meant
        find_toolkit({"HOME": str(tmp_path), "ASCEND_HOME_PATH": str(tmp_path / "none")})


def test_tools_and_libraries_in_their_places(tmp_path: Path) -> None:
    root = tree(tmp_path / "a", f"{BIN}/bisheng", f"{BIN}/ld.lld", "lib64/libascendcl.so", "lib64/libacl_rt.so",
                "runtime/lib64/libruntime.so")
    found = find_toolkit({"ASCEND_HOME_PATH": str(root)})
    assert found.compiler == root / BIN / "bisheng" and found.linker == root / BIN / "ld.lld" and found.objcopy is None
    assert [p.relative_to(root).as_posix() for p in found.libraries] == ["lib64/libacl_rt.so", "lib64/libascendcl.so",
                                                                         "runtime/lib64/libruntime.so"]
    for place in ("ccec_compiler/bin", "tools/bisheng_compiler/bin"):
        root = tree(tmp_path / place.replace("/", "-"), f"{place}/bisheng")
        assert find_toolkit({"ASCEND_HOME_PATH": str(root)}).compiler == root / place / "bisheng"
    elsewhere = tree(tmp_path / "elsewhere", "bisheng", "ld.lld", "llvm-objcopy")
    found = find_toolkit({"ASCEND_HOME_PATH": str(tree(tmp_path / "b", "lib64/libascendcl.so")), "PATH": str(elsewhere)})
    assert (found.compiler, found.linker, found.objcopy) == tuple(elsewhere / n for n in ("bisheng", "ld.lld", "llvm-objcopy"))


def test_layouts_of_headers(tmp_path: Path) -> None:
    old = tree(tmp_path / "old", "lib64/libascendcl.so", "tools/tikcpp/tikcfw/interface/a.h", "tools/tikcpp/tikcfw/impl/a.h")
    new = tree(tmp_path / "new", "lib64/libascendcl.so", "asc/include/basic_api/a.h", "tools/tikcpp/tikcfw/a.h")
    found = find_toolkit({"ASCEND_HOME_PATH": str(old)})
    assert found.layout == "old" and [h.name for h in found.headers] == ["tikcfw", "interface", "impl"]
    found = find_toolkit({"ASCEND_HOME_PATH": str(new)})
    assert found.layout == "new" and [str(h.relative_to(new)) for h in found.headers] == ["tools/tikcpp/tikcfw", "asc/include",
                                                                                        "asc/include/basic_api"]


VERSIONS = [("version.info", "Version=8.1.RC1.alpha002\n", "8.1", "8.1"),
            ("version.cfg", "# x\nruntime_running_version=[8.3.RC1]\n", "8.3", "8.1"),
            ("version.info", "version=8.5.0\n", "8.5", "8.5"), ("compiler/version.info", "Version=9.0.0\n", "9.0", "8.5"),
            ("x86_64-linux/ascend_toolkit_install.info", "package_name=x\nversion=9.1.0\n", "9.1", "9.1"),
            ("version.info", "Version=10.2.0\n", "10.2", "9.1"), ("version.info", "Version=7.0.RC1\n", "7.0", "8.1"),
            ("version.info", "nothing\n", "", "8.1"), ("version.info", "\0\xff" * 5000, "", "8.1")]


@pytest.mark.parametrize("name, text, release, spelt", VERSIONS)
def test_releases_and_their_spelling(name: str, text: str, release: str, spelt: str, tmp_path: Path) -> None:
    root = tree(tmp_path, "lib64/libascendcl.so", name)
    (root / name).write_text(text, "latin-1")
    found = find_toolkit({"ASCEND_HOME_PATH": str(root)})
    assert (found.release, spelling(found)) == (release, spelt)


@given(st.integers(0, 99), st.integers(0, 99))
def test_a_spelling_is_never_newer_than_the_toolkit(major: int, minor: int) -> None:
    path = Path("/none")
    fits = spelling(Toolkit(path, f"{major}.{minor}", "", None, None, None, (), (), ""))
    number = tuple(map(int, fits.split(".")))
    assert fits in SPELLINGS and (number <= (major, minor) or fits == SPELLINGS[0])
