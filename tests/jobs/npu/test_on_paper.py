"""A model's plan on a device that is the model machine on bytes: values are those of the model machine, and memory is used as planned."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest

import aoec
from aoec.acl.device import Device
from aoec.artifact.artifact import load_gears
from aoec.artifact.compiled import Artifact
from aoec.base.errors import BackendError, CheckError
from aoec.jobs.npu.against import OF_GROUP, GroupWatch, differ, differ_outputs
from aoec.jobs.npu.board import Board
from aoec.jobs.npu.device_runner import DeviceRunner
from aoec.jobs.npu.memory_plan import ARENA, Calls, plan_model
from aoec.jobs.npu.sources import write_sources
from aoec.jobs.run.execute import run_model
from aoec.jobs.run.run import random_feeds
from aoec.target.isa.scales import scale_words
from aoec.target.machine import load as load_machine
from tests.frontend.models import feeds_of, model, node, normal
from tests.frontend.test_quantised import conv, gemm
from tests.frontend.test_walked import WALKED, positive
from tests.jobs import nets
from tests.jobs.npu.kit import untuned
from tests.jobs.npu.nets import block, cnn
from tests.jobs.npu.paper import PaperDevice, PaperFacts
from tests.lowering.test_views import NETS, of

LONG = model([node("MatMul", "x w", "y")], {"x": [1, 4096]}, ["y"], {"w": normal(4096, 32) / np.float32(64)})  # parts of k are added up


def board_of(device: PaperDevice) -> Board:
    return Board(cast(Device, device), device.build)


def run_on_paper(made: Artifact, feeds: Mapping[str, Any], device: PaperDevice | None = None) -> tuple[DeviceRunner, PaperDevice]:
    """A runner that has run twice, with the same values as the model machine."""
    device = device or PaperDevice()
    runner = DeviceRunner(made, board_of(device), load_machine(made.target), "8.5")
    wanted = run_model(made, feeds)
    for _ in range(2):  # what the first run left harms no second one
        assert_same(runner.run(feeds), wanted)
    return runner, device


def assert_same(got: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert got.keys() == wanted.keys()
    for name, x in wanted.items():
        assert got[name].dtype == x.dtype
        np.testing.assert_array_equal(got[name], x)


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3"])
def test_a_cnn_is_one_row_of_launches_in_one_arena(target: str) -> None:
    made = untuned(cnn(), target)
    runner, device = run_on_paper(made, random_feeds(made, 1))
    assert device.runs[:1] == [len(runner.plan.calls)] or target == "Ascend310P3"
    assert len(runner.sources.distinct) <= len(runner.plan.calls)
    spots = {s for part in runner.plan.parts.values() for s in part.spots.values() if s.zone == ARENA}
    assert runner.plan.arena_bytes < sum(s.size for s in spots) and max(s.start + s.size for s in spots) <= runner.plan.arena_bytes


def test_a_transformer_block() -> None:
    made = untuned(block())
    run_on_paper(made, random_feeds(made, 1))


@pytest.mark.parametrize("name", NETS)
def test_views_lie_in_the_bytes_of_others(name: str) -> None:
    proto, _ = of(name)
    made = untuned(proto, "Ascend310P3")
    run_on_paper(made, feeds_of(proto))


@pytest.mark.parametrize("proto, zero", [(conv("uint8"), -5), (gemm("Gemm"), -5), (conv("int8"), 3)], ids=["conv", "gemm", "int8"])
def test_scales_lie_there_as_words(proto: onnx.ModelProto, zero: int) -> None:
    """Of 64 bits a column with the zero point of the result, up to what the kernel reads; gemm has 40 columns."""
    made = untuned(proto)
    runner, device = run_on_paper(made, random_feeds(made, 1))
    ((zone, words),) = [(z, c) for z, c in runner.plan.constants.items() if c.zero is not None]
    assert words.zero == zero and not runner.plan.on_host
    scales = runner.artifact.weights[words.tensor]
    there = device.bytes_at(runner.bases[zone], words.size).view(np.uint64)
    np.testing.assert_array_equal(there, scale_words(np.pad(scales.reshape(-1), (0, there.size - scales.size)), zero))


def test_scales_that_a_model_makes_keep_their_group_on_the_host() -> None:
    made = untuned(conv())
    name = next(c.tensor for c in plan_model(made, write_sources([g.program for g in made.groups if g.program], load_machine(made.target),
                                                                 "8.5")).constants.values() if c.zero is not None)
    tensors = tuple(replace(t, data=None) if t.name == name else t for t in made.graph.tensors)
    other = replace(made, graph=replace(made.graph, tensors=tensors, inputs=(*made.graph.inputs, name)))
    plan = plan_model(other, write_sources([g.program for g in made.groups if g.program], load_machine(made.target), "8.5"))
    (why,) = [s.why for s in plan.on_host]
    assert f"FIXPIPE reads the scales {name} as words" in why and all(c.zero is None for c in plan.constants.values())


def test_what_is_added_to_holds_zeros(tmp_path: Path) -> None:
    aoec.compile(LONG, tmp_path / "m.aoec", bank=tmp_path / "bank.db", verify=False, tune=False)
    (made,) = load_gears(tmp_path / "m.aoec")
    runner, _ = run_on_paper(made, random_feeds(made, 1))
    assert any(part.zeros for part in runner.plan.parts.values())


def test_host_groups_run_between_launches() -> None:
    made = nets.compiled("fp16")
    runner, device = run_on_paper(made, nets.feeds())
    assert {s.compiled.group for s in runner.plan.on_host} == {g.name for g in made.graph.groups if g.kind == "host"}
    assert runner.spent.host_s > 0 and runner.spent.rows * 2 == len(device.runs)


def test_a_loop_runs_its_body_on_the_device() -> None:
    made = untuned(WALKED["a loop that data end"], precision="fp32")
    runner, device = run_on_paper(made, {"x": positive(normal(2, 3))})
    assert len(runner.plan.parts) == 2 and len(device.runs) > len(runner.plan.parts)


def test_gears_share_kernels_and_constants(tmp_path: Path) -> None:
    proto = model([node("MatMul", "x w", "a"), node("Relu", "a", "y")], {"x": ["n", 64]}, ["y"], {"w": normal(64, 64)})
    aoec.compile(proto, tmp_path / "m.aoec", input_shape={"x": (-1, 64)}, dynamic_batch=[16, 32], bank=tmp_path / "bank.db", verify=False,
                 tune=False)
    gears = load_gears(tmp_path / "m.aoec")
    device = PaperDevice()
    board = board_of(device)
    for made in gears:
        runner = DeviceRunner(made, board, load_machine(made.target), "8.5")
        feeds = random_feeds(made, 3)
        assert_same(runner.run(feeds), run_model(made, feeds))
    assert len(device.memory) == len(gears) + 1  # an arena each, and the constants


def test_slices_lie_in_the_whole(tmp_path: Path) -> None:
    """Parts of a region are groups of their own, and what they make are views of what is joined."""
    nodes = [node("Conv", "x w", "c", pads=[1] * 4), node("Relu", "c", "y")]
    proto = model(nodes, {"x": [6, 16, 8, 8]}, ["y"], {"w": normal(16, 16, 3, 3) / np.float32(12)})
    aoec.compile(proto, tmp_path / "m.aoec", target="Ascend310P3", slices="g0..g1/3", bank=tmp_path / "bank.db", verify=False, tune=False)
    (made,) = load_gears(tmp_path / "m.aoec")
    runner, device = run_on_paper(made, random_feeds(made, 1))
    assert {"g1_1of3", "g1_3of3"} <= {c.compiled.group for c in runner.plan.calls} and len(device.kernels) < len(runner.plan.calls)


def test_what_has_no_kernel_runs_on_the_host_and_says_why() -> None:
    """Here because the compiler refuses it."""
    made = untuned(cnn())
    device = PaperDevice()
    refuse = BackendError("k does not compile: a call is unknown")
    board = Board(cast(Device, device), lambda kernels: [refuse, *device.build(kernels)[1:]])
    runner = DeviceRunner(made, board, load_machine(made.target), "8.5")
    feeds = random_feeds(made, 2)
    assert_same(runner.run(feeds), run_model(made, feeds))
    assert {s.why for s in runner.plan.on_host} == {str(refuse)}
    with pytest.raises(BackendError, match="a call is unknown"):
        no_board = Board(cast(Device, device), lambda kernels: [refuse] * len(kernels))
        DeviceRunner(made, no_board, load_machine(made.target), "8.5").run(feeds)


def test_a_model_that_does_not_fit_is_refused() -> None:
    made = untuned(LONG)
    device = PaperDevice(PaperFacts(memory_free=100_000))
    with pytest.raises(CheckError, match=r"needs [\d,]+ bytes of device memory: 262,144 of constants and .* the device has 100,000 free"):
        DeviceRunner(made, board_of(device), load_machine(made.target), "8.5").run(random_feeds(made, 1))
    assert device.memory == {}


def test_the_first_group_that_differs_is_named() -> None:
    made = untuned(cnn())

    class Wrong(PaperDevice):
        """Its third launch of a run gives twice what it should."""

        def run(self, launches: Any, limit_us: int) -> None:
            super().run(launches, limit_us)
            if len(self.runs) % 100 == 3:
                place = self.bytes_at(launches[-1].arguments[-1], 64).view(np.float16)
                place *= 2

    feeds = random_feeds(made, 1)
    for device, wrong in ((PaperDevice(), False), (Wrong(), True)):
        runner = DeviceRunner(made, board_of(device), load_machine(made.target), "8.5")
        runner.watch = watch = GroupWatch(runner.tensors)
        got = runner.run(feeds)
        assert watch.seen == len(runner.plan.calls) == len(device.runs)
        third = next(s for s in runner.plan.parts[("", "")].steps if isinstance(s, Calls)).calls[2]
        assert (watch.first is not None) == wrong and (not wrong or watch.first[0] is third.compiled)  # type: ignore[index]
        found = differ_outputs(made, got, run_model(made, feeds))
        assert [d.tensor for d in found] == ["y"] and (wrong or not found[0].wrong)
    assert runner.limit_us([replace(third, compiled=replace(third.compiled, ticks=10**13))]) > 1_000_000


def test_what_is_no_number_is_a_difference() -> None:
    """On one side; and whole numbers may differ by a step."""
    nan, one = np.array([np.nan, 1.0], np.float16), np.array([0.0, 1.0], np.float16)
    assert differ("y", nan, one, "fp16", OF_GROUP).wrong and differ("y", one, nan, "fp16", OF_GROUP).wrong
    assert not differ("y", nan, nan, "fp16", OF_GROUP).wrong and not differ("y", one, one * np.float16(1.001), "fp16", OF_GROUP).wrong
    assert differ("y", one, one * np.float16(1.01), "fp16", OF_GROUP).wrong
    for apart, wrong in ((0, False), (1, False), (2, True)):
        assert differ("n", np.array([100 + apart]), np.array([100]), "int32", OF_GROUP).wrong == wrong
