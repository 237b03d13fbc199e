"""Golden command lines: each route, product and kind of core, with the headers of an old and a new toolkit.

`pytest --bless` writes down what they are now; read the diff."""
from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from aoec.ascendc.calls import WRITTEN, table
from aoec.base.npu_errors import UnsupportedProduct
from aoec.toolchain.find import SPELLINGS, find_toolkit
from aoec.toolchain.routes import ORDER, Files, command_lines, has_route, kind_of, optional_words, tools_of

GOLDEN = Path(__file__).parent / "command_lines.txt"
KINDS = {2201: ("KERNEL_TYPE_AIV_ONLY", "KERNEL_TYPE_AIC_ONLY", "KERNEL_TYPE_MIX_AIC_1_1", "KERNEL_TYPE_MIX_AIC_1_2"),
         2002: ("KERNEL_TYPE_AICORE",), 1001: ("",)}
FOLDERS = {"8.1.RC1": ["tools/tikcpp/tikcfw/interface", "tools/tikcpp/tikcfw/impl"],
           "9.1.0": ["asc/include/basic_api", "asc/include/utils", "asc/impl", "tools/tikcpp/tikcfw"]}


def lines(root: Path) -> str:
    """All command lines, by release, route, product and kind of core."""
    out = []
    for version, folders in FOLDERS.items():
        cann = root / version
        (cann / "lib64").mkdir(parents=True)
        (cann / "lib64/libascendcl.so").write_text("")
        (cann / "version.cfg").write_text(f"# version: 1.0\nruntime_running_version=[{version}]\n")
        for f in folders:
            (cann / f).mkdir(parents=True)
        toolkit = find_toolkit({"ASCEND_HOME_PATH": str(cann)})
        headers = tuple(f"CANN/{h.relative_to(cann)}" for h in toolkit.headers)
        for route in ORDER:
            for product, kinds in KINDS.items():
                for kind in kinds:
                    if has_route(route, product, kind):
                        out.append(f"# CANN {toolkit.version}, {route}, product {product}, {kind_of(kind)} ({kind or 'no kernel type'})")
                        files = Files("k.cpp", "k.bin", headers=headers)
                        out += [shlex.join(line) for line in command_lines(route, product, kind, "k", files, optional_words(route))]
    return "\n".join(out) + "\n"


def test_golden_command_lines(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found = lines(tmp_path)
    if request.config.getoption("--bless"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


def test_every_product_that_is_written_has_a_route() -> None:
    assert {str(p) for p in KINDS} == set(WRITTEN)
    for product, kinds in KINDS.items():
        assert all(has_route("cce", product, kind) for kind in kinds)
    assert not has_route("modern", 1001, "") and not has_route("cce", 3002, "KERNEL_TYPE_AICORE")
    with pytest.raises(UnsupportedProduct, match="no command line for vector kernels of product 2002"):
        command_lines("cce", 2002, "KERNEL_TYPE_AIV_ONLY", "k", Files("k.cpp", "k.bin"))


def test_words_that_may_be_refused_are_left_out() -> None:
    for route in ORDER:
        with_all = command_lines(route, 2201, "KERNEL_TYPE_AIV_ONLY", "k", Files("k.cpp", "k.bin"), optional_words(route))
        without = command_lines(route, 2201, "KERNEL_TYPE_AIV_ONLY", "k", Files("k.cpp", "k.bin"))
        assert "--cce-auto-sync=off" in with_all[0] and "--cce-auto-sync=off" not in without[0]
        assert [w for w in with_all[0] if w != "--cce-auto-sync=off"] == without[0] and with_all[1:] == without[1:]
        assert {line[0] for line in with_all} == set(tools_of(route))


def test_spellings_are_those_of_emit() -> None:
    assert list(SPELLINGS) == list(table().releases)
