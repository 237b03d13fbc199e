"""What runs on a real NPU, and skips with the sentence why there is none: pytest -m requires_npu. We have never run it: please send back
what it says, and the report of aoec doctor --npu."""
from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from aoec.acl.device import open_device
from aoec.base.npu_errors import CannNotFound, DeviceBusy, NoDevice, NoDriver, UnsupportedProduct
from aoec.jobs.npu.first_steps import visit_npu
from aoec.jobs.npu.open_board import machine_of
from aoec.jobs.npu.time_on import time_on_device
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem, start
from aoec.target.machine import load
from aoec.toolchain.find import find_toolkit
from bench import npu

NONE = (CannNotFound, NoDriver, NoDevice, DeviceBusy, UnsupportedProduct)
pytestmark = [pytest.mark.requires_npu, pytest.mark.slow]


@cache
def target_or_why() -> tuple[str, str]:
    """(the target of the first device, why there is none)."""
    try:
        with open_device(find_toolkit()) as device:
            return machine_of(device.facts), ""
    except NONE as e:
        return "", str(e)


@pytest.fixture
def target() -> str:
    found, why = target_or_why()
    if why:
        pytest.skip(why)
    return found


def test_all_first_steps(target: str, tmp_path: Path) -> None:
    report = visit_npu(0)
    assert report["well"], json.dumps(report, indent=1)


@pytest.mark.parametrize("network", ["resnet50-64", "bert-layer", "resnet50", "bert-base"])
def test_a_network_whole(target: str, network: str) -> None:
    """Each launch within what a group may differ from the model machine, the results within the zoo's tolerance of onnxruntime."""
    row = npu.measure(network, target, npu.INSTALLED, groups=True)
    print(row)
    assert row.wrong == ""


@pytest.mark.parametrize("call", ["add(m=4096, n=1024, fp16)", "matmul(m=1024, k=1024, n=1024, fp16)", "softmax(m=2048, n=1024, fp16)"])
def test_times(target: str, call: str) -> None:
    """Printed with -s: these rows are what the model machine's numbers are to be held against."""
    p = problem(lower_operator(call), load(target))
    facts = time_on_device(p.program(start(p).best), load(target), 0)
    print(json.dumps(facts, indent=1))
    assert not facts["wrong"] and facts["measured"]["hot_us"]["least"] > 0
