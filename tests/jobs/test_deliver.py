"""`aoec deliver --to`: the folder as CANN's documents have its files, joined to a user's own profile or graph, whole or not at all."""
from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from aoec import cli
from aoec.base.errors import CapacityError
from aoec.cann import tune_ops
from aoec.cann.runtime_bank import parse_line
from aoec.cann.runtime_bank_keys import Window, key_of
from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.ir.schedule import Trace
from aoec.jobs.deliver import deliver as job
from aoec.jobs.deliver.deliver_entries import Entry, split_pairs
from aoec.jobs.deliver.deliver_records import Record, once, problem, time_tiling
from aoec.jobs.stages.stages import lower_operator
from aoec.report.deliver import LABEL
from aoec.search.vendor.vendor import MatmulTiling
from aoec.search.vendor.vendor_back import Delivery, Refusal
from aoec.target.machine import load
from tests.jobs.small import layers, small_searches
from tests.oracle.schemas import faults

BANKS = ("bank/Ascend910B3/unified_bank", "home/Ascend/cann/data/aoe/custom/op/Ascend910B3/unified_bank",
         "home/Ascend/latest/data/aoe/custom/op/Ascend910B3")
NAME = "Ascend910B3_20_AiCore_MatMulV3_runtime_kb.json"
HEAD = "Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats\n"
TASK = '{name},{type},{us},"""{a};{b}""",FLOAT16;FLOAT16,{format};ND,"""{y}""",FLOAT16,ND\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a model of two products and a softmax, compiled once into a bank."""
    at = tmp_path_factory.mktemp("deliver")
    onnx.save(layers(64, 96, 40), at / "net.onnx")
    with small_searches(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOEC_CACHE_DIR", str(at / "cache"))
        assert cli.main(["compile", str(at / "net.onnx"), "--bank", str(at / "bank.db"), "-o", str(at / "net.aoec"), "--no-verify"]) == 0
        yield at


def run(made: Path, *words: str, source: str = "net.onnx") -> int:
    return cli.main(["deliver", str(made / source), "--bank", str(made / "bank.db"), *words])


def records(folder: Path) -> dict[str, dict[str, object]]:
    """By size m, k, n: what the lines of the bank say."""
    lines = [parse_line(x) for x in (folder / BANKS[0] / NAME).read_text().splitlines()]
    return {f"{x.key['m']}x{x.key['k']}x{x.key['n']}": dict(x.key) | dict(x.knowledge) for x in lines}


def profile(made: Path, name: str, *tasks: dict[str, object]) -> str:
    path = made / name
    path.write_text(HEAD + "".join(TASK.format(**{"format": "ND", "us": 5.5, **t}) for t in tasks))
    return str(path)


def test_a_model_becomes_the_documented_files(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = made / "out"
    assert run(made, "--to", str(out)) == 0
    table = capsys.readouterr().out
    found = records(out)
    assert {*found} == {"16x64x96", "16x96x48"}  # m, n and k in whole fractals; what was no multiple is flagged
    assert found["16x96x48"]["n_align_flag"] is False and found["16x64x96"]["n_align_flag"] is True
    assert len({(out / folder / NAME).read_text() for folder in BANKS}) == 1
    said = json.loads((out / "deliver.json").read_text())
    assert faults("deliver", said) == [] and faults("kernels", json.loads((out / "kernels.json").read_text())) == []
    assert {*said["files"]} == {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
    products = [g for g in said["groups"] if g["kind"] == "cube"]
    assert [g["record"]["key"] for g in products] == ["predicted"] * 2 and [g["record"]["op"] for g in products] == ["MatMulV3"] * 2
    assert said["deliverable"]["share"] == pytest.approx(sum(g["share"] for g in products))
    assert sum(g["share"] for g in said["groups"]) == pytest.approx(1)
    assert table == (out / "deliver.txt").read_text() and f"{said['deliverable']['share']:.1%} of the modelled time" in table
    rows = list(csv.DictReader((out / "kernels.csv").open()))
    words = {(r["group"], r["words"], r["field"]): r["value"] for r in rows}
    first = products[0]["name"]
    assert words[first, "TCubeTiling", "Ka"] == "64"
    assert words[first, "CATLASS", "L0TileShape.M"] == words[first, "TCubeTiling", "baseM"] == "16"
    for name in ("deliver.txt", "deliver.json", "kernels.json", "APPLY.md"):
        assert LABEL in (out / name).read_text().replace("Written", "written"), name


def test_what_gradient_tuning_found_comes_with_a_model(made: Path) -> None:
    (made / "trace.csv").write_text("name,bytes,ready_us\na,4000000,100\nb,9000000,400\n")
    results, out = made / "gradients", made / "with_gradients"
    assert cli.main(["tune", "--job", "gdat", "--trace", str(made / "trace.csv"), "--system", "910b-8", "--results", str(results)]) == 0
    (found,) = results.glob("aoe_result_gdat_*.json")
    assert run(made, "--to", str(out), "--gradient-plan", str(found)) == 0
    said = json.loads((out / "deliver.json").read_text())
    assert faults("deliver", said) == [] and said["gradients"]["gradients"] == 2 and said["groups"]
    assert {*said["files"]} == {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
    text = (out / "APPLY.md").read_text()
    assert text.index("## 2. Apply") < text.index("## Gradients") < text.index("## Undo") and "gradients of trace" in text


def test_what_to_type_names_the_model_the_chip_and_the_bank(made: Path) -> None:
    out = made / "typed"
    assert run(made, "--to", str(out)) == 0
    text = (out / "APPLY.md").read_text()
    compiled = "--framework=5 --model=net.onnx --output=after --soc_version=Ascend910B3 --input_shape=x:16,64 --precision_mode=force_fp16"
    for line in ('export TUNE_BANK_PATH="$PWD/bank"', f"atc {compiled} --op_compiler_cache_mode=force", "unset TUNE_BANK_PATH",
                 "msprof --output=prof_before", "msprof --output=prof_after", f"find ~/Ascend -name {NAME}"):
        assert line in text, line
    assert "{" not in text and "None" not in text


def test_keys_are_exact_where_the_users_profile_has_the_operator(made: Path) -> None:
    """One product as it is, one in fractals of the same size, called twice; what only the profile has is listed, longest first."""
    called = {"name": "layer1_x", "type": "MatMulV3", "a": "6,1,16,16", "b": "96,40", "y": "16,40", "format": "FRACTAL_NZ"}
    path = profile(made, "op_summary.csv", {"name": "MatMul_0", "type": "MatMulV3", "a": "16,64", "b": "64,96", "y": "16,96", "us": 4},
                   called, {**called, "us": 6.5},
                   {"name": "more", "type": "Sort", "a": "9", "b": "9", "y": "9", "us": 99})
    assert run(made, "--to", str(made / "exact"), "--op-summary", path) == 0
    said = json.loads((made / "exact" / "deliver.json").read_text())
    products = [g for g in said["groups"] if g["kind"] == "cube"]
    assert [g["record"]["key"] for g in products] == ["exact"] * 2
    assert [(g["theirs"], g["theirs_us"]) for g in products] == [(["MatMul_0"], 4.0), (["layer1_x"], 6.0)]
    assert said["deliverable"]["share_of_keys"] == pytest.approx((4 + 5.5 + 6.5) / (4 + 5.5 + 6.5 + 99))
    assert [o["name"] for o in said["only_in_keys"]] == ["more"] and said["keys"] == {"source": path, "times": "measured"}
    listed = made / "exact" / "tune_ops.json"
    assert not listed.exists() or {*tune_ops.read(listed).names} <= {"MatMul_0", "layer1_x"}


def test_an_operator_of_another_type_or_size_gets_no_exact_key(made: Path) -> None:
    path = profile(made, "other.csv", {"name": "a", "type": "MatMulV2", "a": "16,64", "b": "64,96", "y": "16,96"},
                   {"name": "b", "type": "MatMulV3", "a": "16,96", "b": "96,41", "y": "16,41"})  # as many fractals, and no such product
    assert run(made, "--to", str(made / "two"), "--op-summary", path) == 0
    first, second = (g for g in json.loads((made / "two" / "deliver.json").read_text())["groups"] if g["kind"] == "cube")
    assert first["record"] is None and "runs it as MatMulV2" in first["why_no_record"]
    assert second["record"]["key"] == "predicted"


def test_keys_come_from_a_dumped_graph_too(made: Path) -> None:
    desc = 'attribute {{ name: "{0}_desc_shape:{1}" ints: {2} ints: {3} }} attribute {{ name: "{0}_desc_dtype:{1}" s: "DT_FLOAT16" }} ' \
           'attribute {{ name: "{0}_desc_layout:{1}" s: "ND" }} '
    node = 'node { name: "m" op_type: "ge:MatMulV3" ' + desc.format("input", 0, 16, 64) + desc.format("input", 1, 64, 96) + desc.format(
        "output", 0, 16, 96) + "}"
    path = made / "ge_onnx_00000101_graph_0_Build.pbtxt"
    path.write_text("graph { " + node + " }")
    assert run(made, "--to", str(made / "dumped"), "--graph", str(path)) == 0
    said = json.loads((made / "dumped" / "deliver.json").read_text())
    assert [g["record"]["key"] for g in said["groups"] if g["kind"] == "cube"] == ["exact", "predicted"]


@pytest.mark.parametrize("source", ["net.aoec", "bank.db", "bank.jsonl"])
def test_a_compiled_model_and_a_bank_say_the_same_records(made: Path, source: str) -> None:
    if source == "bank.jsonl":
        assert cli.main(["bank", "export", "--bank", str(made / "bank.db"), str(made / source)]) == 0
    for name, words in (("from_onnx", "net.onnx"), (f"from_{source}", source)):
        if not (made / name).exists():
            assert run(made, "--to", str(made / name), source=words) == 0
    same, here = records(made / "from_onnx"), records(made / f"from_{source}")
    assert same == here


def files(made: Path) -> list[Path]:
    """All but what a bank and the cache keep beside them."""
    return sorted(p for p in made.rglob("*") if "cache" not in p.parts and not p.name.startswith("bank.db-"))


def refused(capsys: pytest.CaptureFixture[str], made: Path, *words: str, source: str = "net.onnx") -> str:
    before = files(made)
    assert run(made, *words, source=source) == 2
    assert files(made) == before
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("aoec: ")]
    return line


def test_what_cannot_be_is_said_in_a_line_and_leaves_nothing(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = made / "full"
    full.mkdir()
    (full / "mine.txt").write_text("kept")
    assert "there are files in it already" in refused(capsys, made, "--to", str(full))
    assert "is no directory" in refused(capsys, made, "--to", str(made / "net.onnx" / "x"))
    new = str(made / "new")
    assert "is no SoC of CANN" in refused(capsys, made, "--to", new, "--soc", "../x")
    other = profile(made, "else.csv", {"name": "a", "type": "MatMulV3", "a": "7,7", "b": "7,7", "y": "7,7"})
    assert "Is it of another model" in refused(capsys, made, "--to", new, "--op-summary", other)
    own = Path(profile(made, "own.csv", {"name": "a", "type": "matmul", "a": "16,64", "b": "64,96", "y": "16,96"}))
    own.write_text("".join(f"{x},{y}\n" for x, y in zip(own.read_text().splitlines(), ("source", "modelled"))))
    assert "is aoec's own file" in refused(capsys, made, "--to", new, "--op-summary", str(own))
    (made / "cut.csv").write_text(HEAD + "MatMul_0,MatMulV3,4\n")
    assert "line 2" in refused(capsys, made, "--to", new, "--op-summary", str(made / "cut.csv"))
    (made / "cut.pbtxt").write_text('graph { node { name: "a')
    assert "cut.pbtxt:1:" in refused(capsys, made, "--to", new, "--graph", str(made / "cut.pbtxt"))
    (made / "none.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    assert "none.db" in refused(capsys, made, "--to", new, source="none.db")
    assert "absent.onnx" in refused(capsys, made, "--to", new, source="absent.onnx")


def test_a_search_among_what_tilings_say_is_never_slower(made: Path) -> None:
    """Of a product that can be said; found schedules are records without a word of what is other."""
    assert run(made, "--to", str(made / "plain"), source="bank.db") == 0 and run(made, "--to", str(made / "tuned"), "--tune", "40",
                                                                                  source="bank.db") == 0
    before, after = ([g["read_us"] for g in json.loads((made / name / "deliver.json").read_text())["groups"] if g["kind"] == "cube"]
                     for name in ("plain", "tuned"))
    assert len(after) == 2 and all(b <= a for a, b in zip(before, after))


def test_nothing_is_left_of_what_is_broken_off(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: object) -> str:
        raise KeyboardInterrupt
    monkeypatch.setattr(job.apply, "text", stop)
    assert run(made, "--to", str(made / "broken")) == 130
    assert not [p for p in made.iterdir() if "broken" in p.name]


def test_a_model_without_products_is_delivered_without_records(made: Path) -> None:
    model = layers(64, 96)
    del model.graph.node[0]
    model.graph.node[0].input[0] = "x"
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 64
    onnx.save(model, made / "shares.onnx")
    assert run(made, "--to", str(made / "none"), source="shares.onnx") == 0
    said = json.loads((made / "none" / "deliver.json").read_text())
    assert said["deliverable"]["share"] == 0 and not (made / "none" / "bank").exists()
    assert "holds no records" in (made / "none" / "APPLY.md").read_text()


def test_of_equal_keys_the_one_of_most_time_is_written() -> None:
    """CANN's loader keeps the first of equal keys: two groups, with relu and without, are one product there."""
    line, other = ('{"id":1,"info_dict":{"m":' + str(m) + '},"knowledge":{},"op":"MatMulV3","version":0}' for m in (16, 32))
    named = {"few": 1.0, "many": 9.0, "third": 1.0}
    few, many, third = (Entry(n, n, "cube", (), ("matmul",), count, us=1.0) for n, count in named.items())
    kept = once([(few, Record("MatMulV3", line)), (many, Record("MatMulV3", line)), (third, Record("MatMulV3", other))])
    assert [r.line for _, r in kept] == ["", line, other] and "that of many" in kept[0][1].why


def test_a_tiling_that_is_read_as_nothing_legal_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise CapacityError("L0C needs 262,144 bytes of 131,072\nand more")
    func = lower_operator("matmul(m=64, k=64, n=64)")
    monkeypatch.setattr("aoec.jobs.deliver.deliver_records.measure_trace", refuse)
    entry = Entry("g0", "", "cube", (), ("matmul",), func=func, trace="sched {\n}")
    found = time_tiling(entry, Delivery(MatmulTiling(), Trace(())), load("Ascend910B3"))
    assert isinstance(found, Refusal) and found.why.endswith("it is not legal here: L0C needs 262,144 bytes of 131,072")


def test_pads_of_a_window_are_in_the_order_of_its_key() -> None:
    """ONNX has them as top, left, bottom, right."""
    func = lower_operator("conv2d(n=2, c=32, h=9, w=12, co=48, kh=3, kw=3)")
    attributes = (("kernel", (3, 3)), ("pad", (1, 2, 3, 4)), ("stride", (2, 1)), ("dilation", (1, 1)), ("group", 1))
    shapes = ((2, 32, 9, 12), (48, 32, 3, 3), (2, 48, 6, 16))
    entry = Entry("g0", "", "cube", (), ("conv2d_packed",), attributes=attributes, shapes=shapes, func=func)
    window = problem(entry)
    assert isinstance(window, Window) and window.pads == (1, 3, 2, 4) and (window.ho, window.wo) == (6, 16)
    assert key_of(window)[1]["padBottom"] == 3


def test_what_cann_would_fuse_and_we_do_not_is_switched_off() -> None:
    nodes = (OpNode("p", "matmul", ("a", "b"), ("y",)), OpNode("s", "gelu", ("y",), ("z",)), OpNode("t", "softmax", ("z",), ("u",)))
    tensors = tuple(Tensor(n, "fp16", (16, 16)) for n in "abyzu")
    graph = Graph("g", ("a", "b"), ("u",), tensors, nodes, tuple(Group(f"g{i}", k, (n,)) for i, (k, n) in enumerate(
        (("cube", "p"), ("vector", "s"), ("vector", "t")))))
    assert list(split_pairs(graph)) == [("matmul", "elementwise"), ("elementwise", "softmax")]
    together = replace(graph, groups=(Group("g0", "cube", ("p", "s")), Group("g1", "vector", ("t",))))
    assert list(split_pairs(together)) == [("elementwise", "softmax")]
