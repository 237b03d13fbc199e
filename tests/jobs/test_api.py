"""aoec from Python: Session and compile as onnxruntime's users know them, ONNX's backend interface, what is said where it does not fit."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import aoec
from aoec import backend
from aoec.base.errors import CheckError, UnsupportedError
from aoec.simulate.timing.host import host_us
from tests.frontend.models import model, node, normal, run

NET = model([node("Gemm", "x w", "a"), node("Relu", "a", "y"), node("NonZero", "y", "n")], {"x": (3, 8)}, ["y", "n"], {"w": normal(8, 5)},
            types={"n": TensorProto.INT64})
HALF = model([node("Add", "x b", "y")], {"x": (2, 3)}, ["y"], {"b": normal(3).astype(np.float16)},
             types={"x": TensorProto.FLOAT16, "y": TensorProto.FLOAT16})


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> aoec.Session:
    folder = tmp_path_factory.mktemp("api")
    onnx.save(NET, folder / "net.onnx")
    made = aoec.compile(folder / "net.onnx", folder / "net.aoec", precision="fp32", bank=folder / "bank.db", verify=True, jobs=1)
    assert made.report["output"] == str(folder / "net.aoec") and made.modelled["latency_us"] > 0
    (host,) = [g for g in made.report["groups"] if g["runs_on"] == "host"]
    assert host["tuned_us"] == host_us(3 * 5 * 4) < made.report["latency"]["tuned_us"]  # what NonZero gives is of no known size
    return aoec.Session(folder / "net.aoec")


def test_a_session_is_used_as_that_of_onnxruntime(session: aoec.Session) -> None:
    assert [(i.name, i.shape, i.type) for i in session.get_inputs()] == [("x", [3, 8], "tensor(float)")]
    outputs = [(o.name, o.shape, o.type) for o in session.get_outputs()]
    assert outputs == [("y", [3, 5], "tensor(float)"), ("n", [2, None], "tensor(int64)")]
    feeds = {"x": normal(3, 8, seed=1)}
    y, n = session.run(None, feeds)
    wanted = run(NET, feeds)
    np.testing.assert_allclose(y, wanted[0], rtol=1e-5, atol=1e-6)
    assert n.dtype == np.int64 and np.array_equal(n, wanted[1]) and np.array_equal(session.run(["n"], feeds)[0], n)


@pytest.mark.parametrize("names, feeds, complaint", [
    (["z"], {"x": normal(3, 8)}, "the model has no output z; its outputs are y, n"), (None, {}, "input x is missing"),
    (None, {"x": normal(3, 7)}, "input x has shape"), (None, {"x": np.ones((3, 8), np.int32)}, "cast it first"),
])
def test_what_does_not_fit_is_one_sentence(session: aoec.Session, names: list[str] | None, feeds: dict[str, np.ndarray],
                                           complaint: str) -> None:
    with pytest.raises(CheckError, match=complaint):
        session.run(names, feeds)


def test_a_model_that_asks_nothing_of_the_machine(tmp_path: Path) -> None:
    view = aoec.compile(model([node("Flatten", "x", "y")], {"x": (2, 3, 4)}, ["y"]), tmp_path / "v.aoec", bank=tmp_path / "bank.db")
    assert view.modelled == {} and np.array_equal(view.run(None, {"x": normal(2, 3, 4).astype(np.float16)})[0],
                                                  normal(2, 3, 4).astype(np.float16).reshape(2, 12).astype(np.float32))


def test_no_host_names_the_nodes(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"1 node would run on the host, which --no-host forbids: nonzero_0 \(host.NonZero\)"):
        aoec.compile(NET, tmp_path / "n.aoec", bank=tmp_path / "bank.db", no_host=True)
    assert not (tmp_path / "n.aoec").exists()


def test_backend_runs_models_and_nodes() -> None:
    feeds = {"x": normal(3, 8, seed=2)}
    for inputs in (feeds, [feeds["x"]], feeds["x"]):
        np.testing.assert_allclose(backend.run_model(NET, inputs)[0], run(NET, feeds)[0], rtol=1e-5, atol=1e-6)
    a, b = normal(4, 5), normal(4, 5, seed=3)
    np.testing.assert_allclose(backend.run_node(helper.make_node("Mul", ["a", "b"], ["c"]), [a, b])[0], a * b, rtol=1e-6)
    assert backend.supports_device("CPU") and not backend.supports_device("CUDA")
    with pytest.raises(CheckError, match="2 inputs are given, and the model has 1: x"):
        backend.run_model(NET, [a, b])


def test_a_tensor_that_is_joined_to_itself() -> None:
    net = model([node("Relu", "x", "a"), node("Relu", "z", "b"), node("Concat", "a b a", "y", axis=1)], {"x": (3, 4), "z": (3, 5)}, ["y"])
    feeds = {"x": normal(3, 4), "z": normal(3, 5)}
    prepared = backend.prepare(net)
    assert np.array_equal(prepared.run(feeds)[0], run(net, feeds)[0]) and not prepared.on_host


def test_backend_keeps_declared_types_and_takes_free_shapes() -> None:
    x = normal(2, 3).astype(np.float16)
    (y,) = backend.run_model(HALF, [x])
    assert y.dtype == np.float16 and np.array_equal(y, x + normal(3).astype(np.float16))
    prepared = backend.prepare(model([node("Relu", "x", "a"), node("NonZero", "a", "y")], {"x": ("n", None)}, ["y"],
                                     types={"y": TensorProto.INT64}))
    for shape in ((0, 3), (2, 3), (4, 1)):
        x = normal(*shape)
        assert np.array_equal(prepared.run([x])[0], np.array(np.nonzero(np.maximum(x, 0))))
    assert prepared.on_host == ("host.NonZero",)


def test_the_backend_compiles_for_the_values_that_shapes_follow_from() -> None:
    """A shape that is an input is a constant of what is compiled: no node runs on the host, and another value compiles again."""
    net = model([node("Reshape", "x s", "r"), node("Relu", "r", "y")], {"x": (2, 6), "s": (2,)}, ["y"], types={"s": TensorProto.INT64})
    prepared, x = backend.prepare(net), normal(2, 6)
    for shape in ((3, 4), (12, 1)):
        (y,) = prepared.run([x, np.array(shape)])
        np.testing.assert_array_equal(y, np.maximum(x, 0).reshape(shape))
        assert not prepared.on_host
