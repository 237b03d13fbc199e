"""Our machine files beside what the vendor's compiler front half states of each device: cores and the sizes of memories.

The numbers are what `bishengir-compile --target=NAME --save-temps=DIR` of ascendnpu-ir 1.2.0 writes at the head of DIR/module.hivm.opt.mlir
(bishengir-compile-a5 for 950), its bits as bytes. Not one differs from ours. It has no 310P, 910A or 310B.
"""
from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from aoec.target.machine import load
from tests.hivm.wheel import need_wheel

K = 1024
SIZES_2201 = {"UB": 192 * K, "L1": 512 * K, "L0A": 64 * K, "L0B": 64 * K, "L0C": 128 * K}
SIZES_3510 = {"UB": 248 * K, "L1": 512 * K, "L0A": 64 * K, "L0B": 64 * K, "L0C": 256 * K}
# our machine -> names of devices there, (cube cores, vector cores), bytes of memories
FACTS: dict[str, tuple[tuple[str, ...], tuple[int, int], dict[str, int]]] = {
    "Ascend910B1": (("Ascend910B1",), (24, 48), SIZES_2201),
    "Ascend910B2": (("Ascend910B2", "Ascend910B2C"), (24, 48), SIZES_2201),
    "Ascend910B3": (("Ascend910B3",), (20, 40), SIZES_2201),
    "Ascend910B4": (("Ascend910B4", "Ascend910B4-1"), (20, 40), SIZES_2201),
    "Ascend910_9362": (("Ascend910_9362",), (20, 40), SIZES_2201),
    "Ascend910_9372": (("Ascend910_9372",), (20, 40), SIZES_2201),
    "Ascend910_9382": (("Ascend910_9382", "Ascend910_9381"), (24, 48), SIZES_2201),
    "Ascend910_9392": (("Ascend910_9392", "Ascend910_9391"), (24, 48), SIZES_2201),
    "Ascend950PR_957x": (("Ascend950PR_957b", "Ascend950PR_957c", "Ascend950PR_957d", "Ascend950PR_9579"), (28, 56), SIZES_3510),
    "Ascend950PR_958x": (("Ascend950PR_9589", "Ascend950PR_958a", "Ascend950PR_958b"), (32, 64), SIZES_3510),
}
OTHERS = {"Ascend950PR_9599": (36, 72), "Ascend950DT_9591": (36, 72)}  # devices there that we have no file of
MATMUL = """module { func.func @mm(%a: tensor<512x512xf16>, %b: tensor<512x512xf16>, %c: tensor<512x512xf32>) -> tensor<512x512xf32>
 attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>} {
 %0 = linalg.matmul ins(%a, %b : tensor<512x512xf16>, tensor<512x512xf16>) outs(%c : tensor<512x512xf32>) -> tensor<512x512xf32>
 return %0 : tensor<512x512xf32> } }
"""


@pytest.mark.parametrize("name", FACTS)
def test_machines_have_the_stated_sizes(name: str) -> None:
    machine, (_, (cubes, vectors), sizes) = load(name), FACTS[name]
    assert (machine.cores["aic"].count, machine.cores["aiv"].count) == (cubes, vectors)
    assert {scope: machine.scope(scope).size_bytes for scope in sizes} == sizes


@pytest.mark.slow
@pytest.mark.parametrize("name", FACTS)
def test_facts_are_what_the_wheel_states(name: str, tmp_path: Path) -> None:
    devices, (cubes, vectors), sizes = FACTS[name]
    tool = need_wheel().tool.with_name("bishengir-compile" + ("-a5" if "950" in name else ""))
    (tmp_path / "mm.mlir").write_text(MATMUL)
    for device in devices:
        subprocess.run([tool, "mm.mlir", f"--target={device}", "--enable-hfusion-compile=true", "--enable-hivm-compile=true",
                        f"--save-temps={device}", "-o", "k.o"], cwd=tmp_path, capture_output=True, timeout=120)
        found = dict(re.findall(r'"([A-Z0-9_]+)", (\d+) : i32', (tmp_path / device / "module.hivm.opt.mlir").read_text()[:4000]))
        assert (int(found["CUBE_CORE_COUNT"]), int(found["VECTOR_CORE_COUNT"])) == (cubes, vectors)
        assert {scope: int(found[f"{scope}_SIZE"]) // 8 for scope in sizes} == sizes
