"""Constants in files of their own: mapped from where the model may point, the same values as within it, refused from anywhere else."""
from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aoec.base.errors import AoecError
from aoec.frontend.read import weights
from aoec.frontend.translate.onnx import load
from tests.frontend.models import model, node, normal

W = normal(40, 32)
BYTES = W.nbytes
NET = model([node("MatMul", "x w", "a"), node("Add", "a b", "y")], {"x": (2, 40)}, ["y"], {"w": W, "b": normal(32)})


def saved(folder: Path, **places: str) -> Path:
    """NET with its matrix in a file of its own, at the places that are said."""
    folder.mkdir(exist_ok=True)
    proto = onnx.ModelProto()
    proto.CopyFrom(NET)
    w = next(i for i in proto.graph.initializer if i.name == "w")
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "64", "length": str(BYTES), **places}.items():
        w.external_data.add(key=key, value=value)
    (folder / "w.bin").write_bytes(bytes(64) + W.tobytes())
    (folder / "net.onnx").write_bytes(proto.SerializeToString())
    return folder / "net.onnx"


def test_a_constant_beside_the_model_is_the_constant_within_it(tmp_path: Path) -> None:
    graph, constants, _ = load(saved(tmp_path), {}, "fp32")
    wanted, inside, _ = load(NET, {}, "fp32")
    assert graph == wanted and constants.keys() == inside.keys()
    assert all(np.array_equal(constants[name], inside[name]) for name in inside)


def test_large_constants_are_taken_and_not_copied(tmp_path: Path) -> None:
    path = saved(tmp_path)
    proto, arrays = weights.take(onnx.load(path, load_external_data=False), path)
    assert list(arrays) == ["w"] and np.array_equal(arrays["w"], W) and isinstance(_root(arrays["w"]), np.memmap)
    assert len(proto.SerializeToString()) < BYTES // 4
    proto.graph.output[0].type.tensor_type.shape.SetInParent()
    weights.check(proto, arrays)
    assert [tuple(i.dims) for i in proto.graph.initializer] == [(40, 32), (32,)]


def _root(array: np.ndarray) -> object:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


@pytest.mark.parametrize("element", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_every_kind_of_real_is_taken_as_it_is(element: type, tmp_path: Path) -> None:
    constant = numpy_helper.from_array(np.asarray(normal(64, 64), element), "w")
    ends = [helper.make_tensor_value_info("y", constant.data_type, None)]
    graph = helper.make_graph([node("Identity", "w", "y")], "g", [], ends, [constant])
    proto, arrays = weights.take(helper.make_model(graph))
    assert arrays["w"].dtype == element and np.array_equal(arrays["w"], np.asarray(normal(64, 64), element))
    assert not proto.graph.initializer[0].raw_data


def test_data_that_are_not_aligned_are(tmp_path: Path) -> None:
    path = saved(tmp_path, offset="63")
    _, arrays = weights.take(onnx.load(path, load_external_data=False), path)
    assert arrays["w"].flags.aligned and arrays["w"].tobytes() == (bytes(64) + W.tobytes())[63:63 + BYTES]


@pytest.mark.parametrize("places, words", [
    ({"location": "../w.bin"}, "own folder"), ({"location": "/etc/passwd"}, "own folder"), ({"location": ""}, "own folder"),
    ({"location": "a/../../w.bin"}, "own folder"), ({"location": "link.bin"}, "own folder"), ({"location": "a\0b"}, "own folder"),
    ({"location": "other.bin"}, "no such file"), ({"location": "."}, "own folder"), ({"offset": "65"}, "which has 5,184"),
    ({"offset": "-1"}, "offset of the data"), ({"offset": "9" * 30}, "offset of the data"), ({"offset": str(1 << 62)}, "bytes from"),
    ({"length": "64"}, "said to be 64 bytes"), ({"length": "x"}, "length of the data")])
def test_data_that_are_not_where_they_may_be_are_refused(places: dict[str, str], words: str, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(BYTES))
    path = saved(tmp_path / "model", **places)
    os.symlink(tmp_path / "w.bin", path.parent / "link.bin")
    with pytest.raises(AoecError, match=words) as e:
        load(path, {}, "fp32")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("op", ["Add", "Loop"])
@pytest.mark.parametrize("element, dims, held", [
    (np.float32, (4, 4), 8), (np.float32, (64, 64), 8), (np.int64, (), 2), (np.int64, (3,), 0)])
def test_constants_of_another_size_than_declared_are_refused(op: str, element: type, dims: tuple[int, ...], held: int) -> None:
    """onnx's own checker takes them, in bodies too."""
    w = numpy_helper.from_array(np.zeros(held, element), "w")
    w.dims[:] = dims
    kind = w.data_type
    x, y, on = (helper.make_tensor_value_info(n, k, s) for n, k, s in (("x", kind, dims), ("y", kind, dims), ("on", 9, ())))
    add = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([add], "net", [x], [y], [w])
    if op == "Loop":
        body = helper.make_graph([add, helper.make_node("Identity", ["c"], ["on"])], "body",
                                 [helper.make_tensor_value_info("i", 7, ()), helper.make_tensor_value_info("c", 9, ()), x], [on, y], [w])
        known = [numpy_helper.from_array(np.array(2), "n"), numpy_helper.from_array(np.array(True), "t")]
        graph = helper.make_graph([helper.make_node("Loop", ["n", "t", "x"], ["y"], body=body)], "net", [x], [y], known)
    with pytest.raises(AoecError) as refused:
        load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    assert "\n" not in str(refused.value) and (op == "Loop" or " w" in str(refused.value))
