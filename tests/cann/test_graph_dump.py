"""Dumped graphs of CANN: protobuf's text form against protobuf itself, operators as both dumps say them, files that are something else."""
from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import GraphProto, ModelProto, TensorProto, helper

from aoec.base.errors import CheckError, ParseError
from aoec.cann.graph_dump import read
from aoec.cann.op_summary import Operand
from aoec.cann.seen import Seen
from aoec.cann.text_proto import Message, parse

# as GE's dumps have them: attributes of a node (Ascend/tools reads these names), and descriptions of tensors (ge_ir.proto)
ONNX_FORM = """ir_version: 6
producer_name: "GE"
graph {
  node {
    output: "args0:0"
    name: "args0"
    op_type: "ge:Data"
    attribute { name: "OUTPUT_IS_VAR" ints: 0 type: INTS }
  }
  node {
    input: "args0:0"
    input: "w:0"
    output: "MatMul_12:0"
    name: "MatMul_12"
    op_type: "ge:MatMulV3"
    attribute { name: "input_desc_dtype:0" s: "DT_FLOAT16" type: STRING }
    attribute { name: "input_desc_shape:0" ints: 48 ints: 8 ints: 16 ints: 16 type: INTS }
    attribute { name: "input_desc_layout:0" s: "FRACTAL_NZ" type: STRING }
    attribute { name: "input_desc_origin_shape:0" ints: 128 ints: 768 type: INTS }
    attribute { name: "input_desc_dtype:1" s: "DT_FLOAT16" type: STRING }
    attribute { name: "input_desc_shape:1" ints: 768 ints: 3072 type: INTS }
    attribute { name: "input_desc_layout:1" s: "ND" type: STRING }
    attribute { name: "output_desc_dtype:0" s: "DT_FLOAT" type: STRING }
    attribute { name: "output_desc_shape:0" ints: 128 ints: 3072 type: INTS }
    attribute { name: "output_desc_layout:0" s: "ND" type: STRING }
  }
}
"""
PROTO_FORM = """name: "g"
graph: <
  name: "ge_default"
  op { name: "x" type: "Data" output_desc { dtype: DT_FLOAT16 shape { dim: 1 } } }
  op {
    name: "Conv_0" type: 'Conv2D'
    input_desc {
      name: "x" dtype: DT_FLOAT16 layout: "NC1HWC0" shape { dim: [1, 4, 56, 56, 16] }
      attr { key: "origin_shape" value { list { i: 1 i: 64 i: 56 i: 56 val_type: VT_LIST_INT } } }
    }
    output_desc { dtype: DT_FLOAT16 shape { dim: 1 dim: 4 dim: 56 dim: 56 dim: 16 } layout: "NC1HWC0" }
  }
>
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "ge_onnx_00000101_graph_0_Build.pbtxt"
    path.write_text(text)
    return path


def test_operators_of_a_graph_in_the_form_of_onnx(tmp_path: Path) -> None:
    assert read(written(tmp_path, ONNX_FORM)) == (Seen("MatMul_12", "MatMulV3", (
        Operand((48, 8, 16, 16), "fp16", "NZ"), Operand((768, 3072), "fp16", "ND")),
        (Operand((128, 3072), "fp32", "ND"),)),)


def test_operators_of_a_graph_in_the_engines_own_form(tmp_path: Path) -> None:
    (conv,) = read(written(tmp_path, PROTO_FORM))
    image = Operand((1, 4, 56, 56, 16), "fp16", "NC1HWC0")
    assert conv == Seen("Conv_0", "Conv2D", (image,), (image,))


NAMES = st.text(max_size=8)


@settings(max_examples=40)
@given(st.lists(st.tuples(NAMES, NAMES, st.lists(st.integers(-2**40, 2**40), max_size=4), NAMES), max_size=4))
def test_protobuf_reads_the_same(nodes: list[tuple[str, str, list[int], str]]) -> None:
    """Names, numbers and texts of any characters, as protobuf's own printer writes them."""
    graph = GraphProto()
    for name, type_, ints, text in nodes:
        node = graph.node.add(name=name, op_type=type_)
        node.attribute.add(name="ints", ints=ints)
        node.attribute.add(name="s", s=text.encode())
    model = ModelProto(graph=graph)
    short = {"as_one_line": True, "use_short_repeated_primitives": True}
    for said in (text_format.MessageToString(model), text_format.MessageToString(model, **short)):
        (found,) = parse(said).all("graph")
        again = [(n.text("name"), n.text("op_type"), *(a for a in n.all("attribute"))) for n in found.all("node")]
        assert [(n, t, list(map(int, a.texts("ints"))), b.text("s")) for n, t, a, b in again] == nodes


def test_a_weight_of_any_bytes_is_read_past(tmp_path: Path) -> None:
    raw = helper.make_tensor("w", TensorProto.UINT8, [256], bytes(range(256)), raw=True)
    text = text_format.MessageToString(helper.make_model(helper.make_graph([], "g", [], [], [raw])))
    assert parse(text).all("graph")[0].all("initializer")[0].texts("dims") == ["256"]
    with pytest.raises(CheckError, match="holds no operators"):
        read(written(tmp_path, text))


@pytest.mark.parametrize(("text", "said"), [
    (ONNX_FORM[:-20], "expected a field"), (ONNX_FORM[:-8], "the text ends inside 3"), ("graph {\n  node @ }", "expected a field"),
    ("graph { : 1 }", "expected a field"), ("graph { node: }", "expected a field"), ("a {" * 100, "more than 64"),
    ('graph { name: "a\n" }', "expected a field"), ("}", "closes no message"), ("graph { node < } >", "closes no message")])
def test_what_is_no_graph_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ParseError, match=said) as e:
        read(written(tmp_path, text))
    assert "ge_onnx_00000101" in str(e.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.pbtxt"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(ParseError, match="not UTF-8"):
        read(path)


def test_a_wild_shape_is_no_shape(tmp_path: Path) -> None:
    wild = ONNX_FORM.replace("ints: 768 ints: 3072", "ints: 1e9 ints: " + "9" * 400)
    assert read(written(tmp_path, wild))[0].inputs[1].shape == ()


def test_an_empty_message_has_nothing() -> None:
    assert parse("  # nothing\n") == Message()
