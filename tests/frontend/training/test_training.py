"""Training graphs: parameters, losses, BatchNormalization in training mode, optimisers, precision; held to NumPy in double."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from aoec.base.errors import CheckError, UnsupportedError
from aoec.frontend.export.export import export
from aoec.frontend.export.steps import End
from aoec.frontend.training.parts.trained_parameters import initial_values
from aoec.frontend.training.phases import phases
from aoec.frontend.training.training import TrainingGraph, find_gradients, find_loss, load_training
from aoec.frontend.translate.onnx import load
from aoec.frontend.zoo import resnet50
from aoec.ir.text.parse import parse_graph
from aoec.ir.text.show import show
from aoec.ops.own import NO_DEFINITIONS
from aoec.ops.run import evaluate
from aoec.options.training import Training
from tests.frontend.models import model, node
from tests.frontend.training.trained_models import CLASSES, Arrays, classifier, cross_entropy, logits_of, parameters

TRAINED = ("weight", "bias", "scale", "shift", "last", "last_bias")


def feeds_of(made: TrainingGraph, seed: int = 1, **given: np.ndarray) -> Arrays:
    """Inputs of a step: parameters as the model has them, states of 0, random data."""
    r = np.random.default_rng(seed)
    tensors = {t.name: t for t in made.graph.tensors}
    out: Arrays = {}
    for name in made.graph.inputs:
        t = tensors[name]
        state = name.endswith(("_momentum", "_exp_avg", "_exp_avg_sq"))
        random = r.integers(0, CLASSES, t.shape).astype(np.int32) if t.dtype == "int32" else r.normal(size=t.shape).astype(np.float32)
        out[name] = made.initial[name] if name in made.initial else np.zeros(t.shape, np.float32) if state else random
    return {**out, **given}


def step(made: TrainingGraph, feeds: Mapping[str, np.ndarray]) -> Arrays:
    return evaluate(made.graph, feeds, made.weights)


def test_resnet50_has_the_gradients_that_aoe_records() -> None:
    made = load_training(resnet50(size=64), Training("cross_entropy"))
    tensors = {t.name: t for t in made.graph.tensors}
    elements = [int(np.prod(tensors[g].shape)) for _, g in made.gradients]
    assert len(made.gradients) == 161
    assert sum(elements) == 25_557_032
    assert {tensors[g].dtype for _, g in made.gradients} == {"fp32"}
    assert round(4 * sum(elements) / 1e6, 3) == 102.228
    assert not any(n.op.startswith("host.") for n in made.graph.nodes)


@pytest.mark.parametrize("normed", [True, False])
def test_gradients_are_finite_differences(normed: bool) -> None:
    made = load_training(classifier(normed=normed), Training("cross_entropy"), precision="fp32")
    feeds = feeds_of(made)
    got = step(made, feeds)
    own = {name: x for name, x in parameters().items() if name in feeds}

    def loss(p: Mapping[str, np.ndarray]) -> float:
        return cross_entropy(logits_of(p, feeds["data"], normed)[0], feeds["labels"])

    assert got["loss"] == pytest.approx(loss(own), rel=1e-5)
    assert {name for name, _ in made.gradients} == {*TRAINED} & own.keys()
    r = np.random.default_rng(2)
    for name, gradient in made.gradients:
        for at in r.integers(0, own[name].size, 6):
            wide = own[name].astype(np.float64)
            ends = []
            for far in (1e-4, -1e-4):
                moved = wide.copy()
                moved.flat[at] += far
                ends.append(loss({**own, name: moved}))
            assert got[gradient].flat[at] == pytest.approx((ends[0] - ends[1]) / 2e-4, abs=2e-5, rel=1e-3), name


def test_running_statistics_are_those_of_pytorch() -> None:
    """momentum 0.8 of ONNX is 0.2 of PyTorch; the running variance takes the unbiased one of the batch."""
    made = load_training(classifier(), Training("cross_entropy"), precision="fp32")
    feeds = feeds_of(made)
    got = step(made, feeds)
    conv = logits_of(parameters(), feeds["data"])[1]
    count = conv.size // conv.shape[1]
    np.testing.assert_allclose(got["mean_next"], 0.8 * feeds["mean"] + 0.2 * conv.mean(axis=(0, 2, 3)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got["variance_next"], 0.8 * feeds["variance"] + 0.2 * conv.var(axis=(0, 2, 3)) * count / (count - 1),
                               rtol=1e-4)


def test_sgd_is_that_of_pytorch() -> None:
    made = load_training(classifier(), Training("cross_entropy", momentum=0.7, weight_decay=0.01), precision="fp32")
    feeds = feeds_of(made, learning_rate=np.array([0.1], np.float32))
    first = step(made, feeds)
    later = step(made, {**feeds, **{name.removesuffix("_next"): x for name, x in first.items() if name.endswith("_next")}})
    for name, gradient in made.gradients:
        w, v = feeds[name].astype(np.float64), 0.0
        for got in (first, later):
            v = 0.7 * v + got[gradient] + 0.01 * w
            w = w - 0.1 * v
            np.testing.assert_allclose(got[f"{name}_momentum_next"], v, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(got[f"{name}_next"], w, rtol=1e-4, atol=1e-6)
    assert cross_entropy(logits_of(parameters(), feeds["data"])[0], feeds["labels"]) > later["loss"]


def test_adam_is_that_of_pytorch() -> None:
    made = load_training(classifier(normed=False), Training("cross_entropy", "adam"), precision="fp32")
    feeds = feeds_of(made, learning_rate=np.array([0.01], np.float32), beta1_power=np.ones(1, np.float32),
                     beta2_power=np.ones(1, np.float32))
    first = step(made, feeds)
    later = step(made, {**feeds, **{name.removesuffix("_next"): x for name, x in first.items() if name.endswith("_next")}})
    for name, gradient in made.gradients:
        w, m, v = feeds[name].astype(np.float64), 0.0, 0.0
        for t, got in enumerate((first, later), 1):
            g = got[gradient].astype(np.float64)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            w = w - 0.01 / (1 - 0.9**t) * m / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
            np.testing.assert_allclose(got[f"{name}_next"], w, rtol=2e-3, atol=2e-5)


def test_loss_scale_is_taken_out_again() -> None:
    plain, scaled = (load_training(classifier(), Training("cross_entropy", loss_scale=s), precision="fp32") for s in (None, 256.0))
    feeds = feeds_of(plain)
    a, b = step(plain, feeds), step(scaled, feeds)
    assert a["loss"] == b["loss"]
    for name, gradient in plain.gradients:
        np.testing.assert_allclose(b[gradient], 256 * a[gradient], rtol=1e-3, atol=256e-6)
        np.testing.assert_allclose(b[f"{name}_next"], a[f"{name}_next"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("precision", "sent"), [("fp16", "fp32"), ("bf16", "bf16"), ("fp16", "fp16"), ("mixed", "fp32"), ("keep", "fp32")])
def test_masters_stay_fp32(precision: str, sent: str) -> None:
    made = load_training(classifier(), Training("cross_entropy", gradient_type=sent), precision=precision)
    dtypes = {t.name: t.dtype for t in made.graph.tensors}
    assert {dtypes[i] for i in made.graph.inputs if i not in ("data", "labels")} == {"fp32"}
    assert {dtypes[o] for o in made.graph.outputs if o.endswith("_next")} == {"fp32"}
    assert {dtypes[g] for _, g in made.gradients} == {sent}
    conv = next(n for n in made.graph.nodes if n.op == "conv2d")
    assert dtypes[conv.outputs[0]] == {"fp16": "fp16", "bf16": "bf16", "mixed": "fp16", "keep": "fp32"}[precision]
    wide = load_training(classifier(), Training("cross_entropy", loss_scale=1024.0 if precision == "fp16" else 1.0), precision="fp32")
    feeds = feeds_of(made)
    got, wanted = step(made, feeds), step(wide, feeds)
    assert got["loss"] == pytest.approx(wanted["loss"], rel=2e-2)
    most = max(float(np.abs(wanted[g]).max()) for _, g in wide.gradients)
    for _, gradient in made.gradients:
        np.testing.assert_allclose(got[gradient].astype(np.float32), wanted[gradient], atol=most * (0.05 if precision == "bf16" else 0.01))


def test_kept_activations_are_of_16_bits() -> None:
    """What is as large as an image is fp32 inside of launches alone."""
    made = load_training(classifier(channels=16), Training("cross_entropy"), precision="fp16")
    users: dict[str, set[str]] = {}
    for n in made.graph.nodes:
        for i in n.inputs:
            users.setdefault(i, set()).add(n.name)
    large = [t for t in made.graph.tensors if int(np.prod(t.shape)) >= 4 * 16 * 36 and t.dtype == "fp32"]
    assert large and all(len(users[t.name]) == 1 for t in large)


def test_mse_and_the_outputs_of_a_model() -> None:
    nodes = [node("MatMul", "x w", "a"), node("ReduceMean", "a", "b", keepdims=0)]
    net = model(nodes, {"x": (3, 4)}, ["a", "b"], {"w": np.ones((4, 2), np.float32)}, opset=17)
    made = load_training(net, Training("mse", "none"), precision="fp32")
    assert any("b take no part" in line for line in made.notices)
    feeds = feeds_of(made)
    got = step(made, feeds)
    far = feeds["x"].astype(np.float64) @ np.ones((4, 2)) - feeds["target"]
    assert got["loss"] == pytest.approx(np.mean(far**2), rel=1e-5)
    np.testing.assert_allclose(got["w_grad"], feeds["x"].T @ far * 2 / far.size, rtol=1e-4)
    own = load_training(net, Training("b", "none"), precision="fp32")
    assert own.graph.outputs == ("loss", "w_grad")
    for word in ("c", "mse:c", "cross_entropy:", "a"):
        with pytest.raises(CheckError, match="outputs are|those are|a loss is one real number" if word != "cross_entropy:" else "."):
            load_training(net, Training(word), precision="fp32")
            raise CheckError(".")


def test_classes_of_images_are_their_channels() -> None:
    nodes = [node("Conv", "x w", "logits", kernel_shape=[1, 1])]
    net = model(nodes, {"x": (2, 3, 4, 4)}, ["logits"], {"w": np.random.default_rng(0).normal(size=(CLASSES, 3, 1, 1)).astype(np.float32)})
    made = load_training(net, Training("cross_entropy", "none"), precision="fp32")
    feeds = feeds_of(made)
    logits = np.einsum("nchw,oc->nhwo", feeds["x"], made.initial["w"][:, :, 0, 0]).astype(np.float64).reshape(-1, CLASSES)
    assert feeds["labels"].shape == (2, 4, 4)
    assert step(made, feeds)["loss"] == pytest.approx(cross_entropy(logits, feeds["labels"].ravel()), rel=1e-5)


def test_parameters_are_what_nodes_read_as_weights() -> None:
    """Not an epsilon, a mask or a running mean; a weight behind a transposition, and a constant that a node makes, are."""
    nodes = [node("Constant", "", "made", value=onnx.numpy_helper.from_array(np.ones((4, 4), np.float32))),
             node("MatMul", "x made", "a"), node("Transpose", "w", "turned"), node("MatMul", "a turned", "b"),
             node("Add", "b epsilon", "c"), node("Where", "mask c low", "d"), node("Add", "d bias", "y")]
    constants = {"w": np.ones((6, 4), np.float32), "epsilon": np.float32(1e-5), "mask": np.ones((3, 6), np.bool_),
                 "low": np.zeros((3, 6), np.float32), "bias": np.ones(6, np.float32)}
    net = model(nodes, {"x": (3, 4)}, ["y"], constants)
    assert [*load_training(net, Training("mse"), precision="fp32").initial] == ["made", "w", "bias"]
    assert [*initial_values(net, {}, NO_DEFINITIONS, ["b*"])] == ["bias"]
    with pytest.raises(CheckError, match="--trained wt is the name of no parameter"):
        load_training(net, Training("mse", trained=("wt",)))
    with pytest.raises(CheckError, match="no parameters that can be trained"):
        load_training(model([node("Relu", "x", "y")], {"x": (3, 4)}, ["y"]), Training("mse"))


def test_a_dropout_has_its_mask_as_an_input() -> None:
    made = load_training(classifier(dropout=True), Training("cross_entropy"), precision="fp32")
    assert any("mask as an input" in line for line in made.notices)
    off = feeds_of(made, dropped_mask=np.zeros((4, 8), np.float32))
    assert not step(made, off)["last_grad"].any()
    bias = np.broadcast_to(parameters()["last_bias"], (4, CLASSES)).astype(np.float64)
    assert step(made, off)["loss"] == pytest.approx(cross_entropy(bias, off["labels"]), rel=1e-5)


def test_the_text_of_a_training_graph_is_a_graph() -> None:
    made = load_training(classifier(), Training("cross_entropy"))
    assert parse_graph(show(made.graph), "text") == made.graph


def test_onnxruntime_takes_the_same_step() -> None:
    """The exported training graph; and the loss of what onnxruntime infers, of a model without normalisation."""
    net = classifier(normed=False)
    made = load_training(net, Training("mse"), precision="fp32")
    feeds = feeds_of(made, learning_rate=np.array([0.1], np.float32))
    got = step(made, feeds)
    (logits,) = run_onnx(net, ["logits"], {"data": feeds["data"]})
    assert got["loss"] == pytest.approx(np.mean((logits.astype(np.float64) - feeds["target"])**2), rel=1e-5)
    dtypes = {t.name: t.dtype for t in made.graph.tensors}
    inputs, outputs = ([End(name, name, dtypes[name]) for name in names] for names in (made.graph.inputs, made.graph.outputs))
    theirs = run_onnx(export(made.graph, made.weights, inputs, outputs), made.graph.outputs, feeds)
    for name, x in zip(made.graph.outputs, theirs):
        np.testing.assert_allclose(x, got[name], rtol=1e-3, atol=1e-5, err_msg=name)


def run_onnx(net: onnx.ModelProto, outputs: Sequence[str], feeds: Arrays) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(net.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run([*outputs], {i.name: feeds[i.name] for i in session.get_inputs()})  # type: ignore[no-any-return]


# ---------------------------------------------------------------- graphs that hold gradients already

def held() -> onnx.ModelProto:
    """x @ w, half the sum of its squares, and the gradient of w, spelt out."""
    nodes = [node("MatMul", "x w", "y"), node("ReduceSumSquare", "y", "total", keepdims=0), node("Mul", "total half", "cost"),
             node("Transpose", "x", "turned"), node("MatMul", "turned y", "w_grad"), node("Mul", "w_grad rate", "down"),
             node("Sub", "w down", "w_next")]
    numbers = {"half": np.asarray(np.float32(0.5)), "rate": np.asarray(np.float32(0.1))}
    return model(nodes, {"x": (3, 4), "w": (4, 2)}, ["cost", "w_grad", "w_next"], numbers)


def test_gradients_that_a_model_holds_are_found() -> None:
    made = load_training(held(), Training("cost"), precision="fp32")
    assert (made.loss, made.gradients) == ("cost", (("w", "w_grad"),))
    assert any("1 gradient already" in line for line in made.notices)
    assert len(made.graph.inputs) == 2
    named = load_training(held(), Training(gradients=("w_next",)), precision="fp32")
    assert named.gradients == (("", "w_next"),)
    with pytest.raises(CheckError, match="--gradients w_grd is no output of the model; did you mean w_grad"):
        load_training(held(), Training(gradients=("w_grd",)))
    with pytest.raises(CheckError, match="--loss coast"):
        load_training(held(), Training("coast"))


def test_phases_follow_from_what_is_made_of_what() -> None:
    made = load_training(held(), Training("cost"), precision="fp32")
    of = phases(made.graph, made.loss, [g for _, g in made.gradients])
    assert of["cost"] == "forward"
    assert of["w_grad"] == "backward"
    assert of["w_next"] == "optimiser"
    whole = load_training(classifier(), Training("cross_entropy", "adam"))
    of = phases(whole.graph, whole.loss, [g for _, g in whole.gradients])
    assert {of[o] for o in whole.graph.outputs if o.endswith("_next") and o not in ("mean_next", "variance_next")} == {"optimiser"}
    assert {of[o] for o in ("mean_next", "variance_next", "loss")} == {"forward"}
    assert {of[g] for _, g in whole.gradients} == {"backward"}
    assert not any(of[o] == "forward" for n in whole.graph.nodes for o in n.outputs if "adam" in n.name)
    assert find_loss(whole.graph) == "loss" and find_gradients(whole.graph) == whole.gradients


@pytest.mark.parametrize(("op", "attributes"), [
    ("Momentum", {"alpha": 0.8, "beta": 0.5, "norm_coefficient": 0.1, "mode": "standard"}),
    ("Momentum", {"alpha": 0.8, "beta": 0.5, "norm_coefficient": 0.1, "mode": "nesterov"}),
    ("Adam", {"alpha": 0.7, "norm_coefficient": 0.1, "norm_coefficient_post": 0.2}), ("Adam", {})])
@pytest.mark.parametrize("times", [0, 3])
def test_optimisers_of_onnx_are_read(op: str, attributes: dict[str, object], times: int) -> None:
    """Of two tensors, as onnx.reference has them; nothing runs on the host."""
    states = ("v", "h") if op == "Adam" else ("v",)
    given = [f"{letter}{k}" for letter in ("x", "g", *states) for k in (1, 2)]
    made = [f"{letter}{k}_next" for letter in ("x", *states) for k in (1, 2)]
    optimiser = helper.make_node(op, ["r", "t", *given], made, domain="ai.onnx.preview.training", **attributes)
    shapes = {"r": (), "t": (), **{name: (3, 4) if name.endswith("1") else (5,) for name in given}}
    net = model([optimiser], shapes, made, types={"t": TensorProto.INT64})
    net.opset_import.append(helper.make_opsetid("ai.onnx.preview.training", 1))
    graph, weights, _ = load(net, precision="fp32")
    assert not any(n.op.startswith("host.") for n in graph.nodes)
    r = np.random.default_rng(3)
    feeds: Arrays = {name: np.abs(r.normal(size=shape)).astype(np.float32) for name, shape in shapes.items()}
    feeds["t"] = np.array(times, np.int64)
    wanted = ReferenceEvaluator(net).run(None, feeds)
    got = evaluate(graph, feeds, weights)
    for name, x in zip(made, wanted):
        np.testing.assert_allclose(got[name], x, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_training_artifact_is_told_apart() -> None:
    net = model([helper.make_node("ReluGrad", ["x", "x"], ["x_grad"], domain="com.microsoft")], {"x": (3, 4)}, ["x_grad"])
    net.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(UnsupportedError, match=r"com.microsoft.ReluGrad .* this is a training artifact: .* --loss"):
        load(net)


def test_types_of_gradients_in_an_onnx_file_are_kept() -> None:
    """A model in fp16 has masters in fp32."""
    w = helper.make_tensor("w", TensorProto.FLOAT16, (4, 2), np.ones((4, 2), np.float16).tobytes(), raw=True)
    half = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape) for name, shape in (("x", (3, 4)), ("y", (3, 2)))]
    net = helper.make_model(helper.make_graph([node("MatMul", "x w", "y")], "half", half[:1], half[1:], [w]),
                            opset_imports=[helper.make_opsetid("", 17)])
    made = load_training(net, Training("mse"), precision="keep")
    dtypes = {t.name: t.dtype for t in made.graph.tensors}
    assert (dtypes["x"], dtypes["y"], dtypes["w"], dtypes["w_next"]) == ("fp16", "fp16", "fp32", "fp32")
