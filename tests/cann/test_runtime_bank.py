"""Run-time banks of CANN: lines as documented, field by field; what is wrong is refused by its name; files are hostile."""
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.base.errors import AoecError, BankError, UnsupportedError
from aoec.cann import runtime_bank
from aoec.cann.runtime_bank import Line, file_name, files_in, firsts, folders, kinds, line, parse_line, read_file, record_id
from aoec.cann.runtime_bank_keys import Product, Window, doubt, key_of, problem_of
from aoec.cann.runtime_bank_tilings import knowledge_of, tiling_of

MATMUL = Product(2048, 4100, 1536, trans_b=True)
TILING = {"usedCoreNum": 24, "singleCoreM": 128, "singleCoreN": 256, "singleCoreK": 4100, "baseM": 128, "baseN": 256, "baseK": 64,
          "depthA1": 8, "depthB1": 8, "stepM": 1, "stepN": 1, "iterateOrder": 0, "stepKa": 4, "stepKb": 4, "dbL0A": 2, "dbL0B": 2,
          "dbL0C": 1, "l2MTileCnt": 2, "l2NTileCnt": 1, "l2MTileBlock": 8, "l2NTileBlock": 6, "l2IterateOrder": 0, "kRotate": 0}
GOLDEN = (  # of the documented layout: id, 34 fields of the key, 23 of the tiling, op, version
    '{"id":%d,"info_dict":{"a_dtype":1,"a_format":2,"aub_double_num":1.0,"b_dtype":1,"b_format":2,"batch_a1":1,"batch_a2":1,"batch_a3":1,'
    '"batch_a4":1,"batch_b1":1,"batch_b2":1,"batch_b3":1,"batch_b4":1,"bias_flag":false,"bub_double_num":1.0,"fused_double_operand_num":0.0,'
    '"k":4112,"k_align_flag":false,"l1_fused_num":0.0,"m":2048,"m_align_flag":true,"n":1536,"n_align_flag":true,"out_dtype":1,"out_format":2,'
    '"reserved_bool":false,"reserved_params1":0,"reserved_params2":0,"reserved_params3":0,"reserved_params4":0,"reserved_params5":0,'
    '"reserved_params6":0,"trans_a_flag":false,"trans_b_flag":true},"knowledge":{"usedCoreNum":24,"singleCoreM":128,"singleCoreN":256,'
    '"singleCoreK":4100,"baseM":128,"baseN":256,"baseK":64,"depthA1":8,"depthB1":8,"stepM":1,"stepN":1,"iterateOrder":0,"stepKa":4,"stepKb":4,'
    '"dbL0A":2,"dbL0B":2,"dbL0C":1,"l2MTileCnt":2,"l2NTileCnt":1,"l2MTileBlock":8,"l2NTileBlock":6,"l2IterateOrder":0,"tilingEnable":0},'
    '"op":"MatMulV3","version":0}')
CONV = Window(2, 64, 28, 30, 96, 3, 3, pads=(1, 1, 1, 1), bias=True)
CONV_TILING = {"hoL1": 8, "woL1": 30, "hoL0": 4, "woL0": 30, "kL0": 48, "nL0": 64, "kAL1": 576, "kBL1": 288, "nBL1": 64,
               "batchDim": 2, "hoDim": 4, "woDim": 1, "nDim": 2, "groupDim": 1, "pbAL1": 1, "pbBL1": 2, "pbAL0": 2, "pbBL0": 1, "pbCL0": 1,
               "iterateMNOrder": 1}
GOLDEN_CONV = (
    '{"id":%d,"info_dict":{"aDtype":1,"bDtype":1,"cDtype":1,"biasDtype":1,"aShapeN":2,"aShapeH":28,"aShapeW":30,"bShapeN":96,"bShapeC":64,'
    '"bShapeH":3,"bShapeW":3,"cShapeH":28,"cShapeW":30,"aFormat":0,"bFormat":0,"cFormat":0,"groups":1,"strideH":1,"strideW":1,"dilationH":1,'
    '"dilationW":1,"padTop":1,"padBottom":1,"padLeft":1,"padRight":1,"biasFlag":true,"hf32Flag":false,"reserverdParam1":0,"reserverdParam2":0,'
    '"reserverdParam3":0,"reserverdParam4":0.0,"reserverdParam5":0.0,"reserverdParam6":0.0},"knowledge":{"groups":1,"orgCi":64,"orgHi":28,'
    '"orgWi":30,"orgCo":96,"orgHo":28,"orgWo":30,"kernelH":3,"kernelW":3,"singleCoreCi":64,"singleCoreCo":64,"singleCoreHo":8,"singleCoreWo":30,'
    '"hoL1":8,"woL1":30,"kAL1":576,"kBL1":288,"nBL1":64,"hoL0":4,"woL0":30,"kL0":48,"nL0":64,"pBufferFlag":17,"strideH":1,"strideW":1,'
    '"dilationH":1,"dilationW":1,"padTop":1,"padBottom":1,"padLeft":1,"padRight":1,"iterateMNOrder":1,"biasFullLoadFlag":1,'
    '"fixpParamsFullLoadFlag":1,"offsetx":0,"hf32Enable":0,"hf32TransMode":0,"isC04Flag":0,"roundMode":0,"groupDim":1,"batchDim":2,"hoDim":4,'
    '"woDim":1,"nDim":2,"mMode":0},"op":"Conv2DV2","version":0}')


def test_a_matmul_line_is_as_documented() -> None:
    op, key = key_of(MATMUL)
    text = line(op, key, knowledge_of(MATMUL, TILING))
    assert text == GOLDEN % record_id(op, key)
    assert (len(key), len(kinds()[op].knowledge)) == (34, 23)  # the counts that CANN's records have
    read = parse_line(text)
    assert (read.op, read.key) == (op, key)
    found = problem_of(op, read.key)
    assert found == Product(2048, 4112, 1536, trans_b=True, rounded="k")  # by how much less is not said
    assert key_of(found) == (op, key)
    assert tiling_of(found, read.knowledge, True) == TILING | {"unitFlag": 1}


def test_a_convolution_line_is_as_documented() -> None:
    op, key = key_of(CONV)
    text = line(op, key, knowledge_of(CONV, CONV_TILING))
    assert text == GOLDEN_CONV % record_id(op, key)
    read = parse_line(text)
    assert problem_of(op, read.key) == CONV
    assert tiling_of(CONV, read.knowledge, False) == CONV_TILING | {"unitFlag": 0}


def quantised(k_al1: int = 8, trans_b: bool = True, **other: int) -> tuple[Product, dict[str, int]]:
    """A product of int8 of 300 x 1024 x 2000, as QuantBatchMatmulV3's key and tiling say it."""
    key = {**key_of(Product(304, 1024, 2000, trans_b=trans_b))[1], "a_dtype": 2, "b_dtype": 2, "reserved_bool": True, "m_align_flag": False}
    tiling = {n: 1 for n in kinds()["QuantBatchMatmulV3"].knowledge} | {
        "m_dim": 2, "n_dim": 5, "m_l0": 5, "n_l0": 12, "k_l0": 4, "k_al1": k_al1, "k_bl1": 16, "db_al1": 2, "db_bl1": 2} | other
    read = parse_line(line("QuantBatchMatmulV3", key, tiling))
    problem = problem_of(read.op, read.key)
    assert isinstance(problem, Product)
    return problem, tiling_of(problem, read.knowledge, True)


def test_a_tiling_of_int8_is_what_the_operator_makes_of_it() -> None:
    problem, t = quantised()
    assert problem == Product(304, 1024, 2000, "int8", "int32", trans_b=True)
    assert (t["baseM"], t["baseN"], t["baseK"]) == (80, 192, 128)  # fractals of 16 x 16 x 32
    assert (t["singleCoreM"], t["singleCoreN"], t["singleCoreK"], t["usedCoreNum"]) == (160, 400, 1024, 10)  # 152 and 400 in sixteens
    assert (t["stepKa"], t["stepKb"], t["depthA1"], t["depthB1"], t["iterateOrder"]) == (2, 4, 4, 8, 0)
    assert quantised(trans_b=False)[1]["singleCoreN"] == 576  # whole tiles, where MTE2 reads across the rows of B
    assert quantised(k_al1=32)[1]["iterateOrder"] == 1  # all of k of A is in L1: n is walked first
    assert quantised(k_al1=32, k_bl1=32)[1]["iterateOrder"] == 0  # 160 + 400 * 2 against 400 + 160 * 3: A is read again
    with pytest.raises(UnsupportedError, match="parts of a batch"):
        quantised(k_dim=2)


def test_what_a_key_says_of_types() -> None:
    bf16, fp32 = key_of(Product(16, 24, 40, "bf16"))[1], key_of(Product(16, 24, 40, "fp32", nz_b=True))[1]
    assert (bf16["a_dtype"], bf16["k"], bf16["k_align_flag"], bf16["n"], bf16["n_align_flag"]) == (1, 32, False, 48, False)
    assert (fp32["a_dtype"], fp32["k"], fp32["k_align_flag"], fp32["b_format"]) == (0, 24, True, 29)
    with pytest.raises(BankError, match="int8"):
        key_of(Product(16, 16, 16, "int8"))


def data_of(text: str = GOLDEN % 1) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(text)
    return data


WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "lacks baseM": lambda d: d["knowledge"].pop("baseM"),
    "lacks k_align_flag": lambda d: d["info_dict"].pop("k_align_flag"),
    "has 'colour'": lambda d: d["knowledge"].update(colour=1),
    "has 'batch_a5'": lambda d: d["info_dict"].update(batch_a5=1),
    "a record has 'cost'": lambda d: d.update(cost=1.5),
    "a record lacks op": lambda d: d.pop("op"),
    "baseN -1 must be a whole number of 32 bits from 0": lambda d: d["knowledge"].update(baseN=-1),
    "baseN 4294967296 must be": lambda d: d["knowledge"].update(baseN=1 << 32),
    "stepM True must be": lambda d: d["knowledge"].update(stepM=True),
    "depthA1 8.0 must be": lambda d: d["knowledge"].update(depthA1=8.0),
    "trans_a_flag 0 must be true or false": lambda d: d["info_dict"].update(trans_a_flag=0),
    "a_dtype 'fp16' must be the number of a data type": lambda d: d["info_dict"].update(a_dtype="fp16"),
    "l1_fused_num list must be a real number": lambda d: d["info_dict"].update(l1_fused_num=[]),
    "knowledge must be an object": lambda d: d.update(knowledge=[1]),
    "operator Softmax": lambda d: d.update(op="Softmax"),
    "id -1": lambda d: d.update(id=-1),
    "version 'x'": lambda d: d.update(version="x")}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_field_is_refused_by_its_name(said: str) -> None:
    data = data_of()
    WRONG[said](data)
    with pytest.raises(BankError) as e:
        parse_line(json.dumps(data))
    assert said in str(e.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"id":1,"id":2}', '{"id":NaN}', "[" * 100_000, '{"id":1e999}', "\x00",
                                  '{"op":' + "9" * 5000 + "}"])
def test_what_is_no_record_is_one_error(text: str) -> None:
    with pytest.raises(BankError):
        parse_line(text)


@settings(max_examples=40)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6),
       st.sampled_from([(part, n) for part in ("info_dict", "knowledge") for n in data_of()[part]]))
def test_any_value_in_a_field_is_read_or_refused_by_name(value: Any, place: tuple[str, str]) -> None:
    data = data_of()
    data[place[0]][place[1]] = value
    try:
        read = parse_line(json.dumps(data))
    except BankError as e:
        assert place[1] in str(e) or "no line of JSON" in str(e)
        return
    try:
        problem = problem_of(read.op, read.key)
        assert parse_line(line(read.op, read.key, read.knowledge)).identity == read.identity
        tiling_of(problem, read.knowledge, True)
    except (BankError, UnsupportedError) as e:
        assert str(e)


def test_a_file_says_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / file_name("Ascend910B3", 20, "MatMulV3")
    other = data_of()
    other["knowledge"]["baseM"] = 64
    path.write_text("\ufeff" + "\r\n".join([GOLDEN % 5, json.dumps(other), "", '{"op": "Softmax"}', "rubbish", GOLDEN % 7]), "utf-8")
    found = read_file(path)
    assert (found.soc, found.cores) == ("Ascend910B3", 20)
    assert [x.number for x in found.lines] == [1, 2, 6]
    assert [(x.number, x.op) for x in found.unread] == [(4, "Softmax"), (5, "")] and "no line of JSON" in found.unread[1].why
    first, others = firsts(found.lines)
    assert [x.number for x in first] == [1] and [x.number for x in others] == [2, 6]  # as the loader: the first of a key stays


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "any_runtime_kb.json"
    monkeypatch.setattr(runtime_bank, "LINES_LIMIT", 2)
    path.write_text("{}\n" * 5)
    with pytest.raises(BankError, match="more than 2 lines"):
        read_file(path)
    monkeypatch.setattr(runtime_bank, "FILE_LIMIT_BYTES", 4)
    with pytest.raises(AoecError):
        read_file(path)
    monkeypatch.setattr(runtime_bank, "FILES_LIMIT", 0)
    with pytest.raises(BankError, match="more than 0"):
        list(files_in(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(BankError, match="no run-time banks"):
        list(files_in(tmp_path / "empty"))


def test_names_and_folders() -> None:
    assert file_name("Ascend910B3", 20, "MatMulV3") == "Ascend910B3_20_AiCore_MatMulV3_runtime_kb.json"
    assert folders("Ascend310P3") == ("Ascend310P3/unified_bank", "Ascend/cann/data/aoe/custom/op/Ascend310P3/unified_bank",
                                      "Ascend/latest/data/aoe/custom/op/Ascend310P3")
    for soc in ("../x", "a b", ""):
        with pytest.raises(BankError):
            file_name(soc, 1, "MatMulV3")
    assert doubt("MatMulV3", "Ascend910B3") == "" and "Ascend950" in doubt("Conv2DV2", "Ascend910B3")
    assert doubt("Conv2DV2", "Ascend950PR_9579") == ""


def test_what_the_fields_say_no_word_of_ours_for() -> None:
    op, key = key_of(MATMUL)
    for template in (2, 3, 5, 6, 7, 20, 1000):
        with pytest.raises(UnsupportedError, match=f"tilingEnable {template}"):
            tiling_of(MATMUL, knowledge_of(MATMUL, TILING) | {"tilingEnable": template}, True)
    with pytest.raises(BankError, match="reserved_params3"):
        problem_of(op, key | {"reserved_params3": 1})
    with pytest.raises(BankError, match="not documented"):
        problem_of("Conv3D", {})
    conv = knowledge_of(CONV, CONV_TILING)
    for field, value in (("innerBatch", 4), ("enlarge", 2), ("isWeightUbTransFlag", 1), ("hoL0", 0)):
        with pytest.raises(UnsupportedError):
            tiling_of(CONV, conv | {field: value}, True)
    with pytest.raises(UnsupportedError, match="whole rows"):
        tiling_of(CONV, conv | {"mMode": 1, "hoL1": 40, "hoL0": 40, "woL1": 0, "woL0": 0}, True)


def test_ids_are_the_keys_alone() -> None:
    op, key = key_of(MATMUL)
    assert record_id(op, key) == record_id(op, dict(reversed(list(key.items())))) == record_id(op, {**key, "aub_double_num": 1})
    assert record_id(op, key) != record_id(op, key | {"m": 2064})
    assert Line(op, key, {}).identity == Line(op, {**key, "l1_fused_num": 0}, {"a": 1}).identity
