"""CANN's own run-time banks as what searches begin with: all that they hold is a schedule or counted by its reason."""
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from aoec import cli
from aoec.bank.bank import Bank
from aoec.bank.record import IMPORTED
from aoec.cann.runtime_bank import file_name, kinds, line
from aoec.cann.runtime_bank_keys import Product, Window, key_of
from aoec.cann.runtime_bank_tilings import knowledge_of
from aoec.ir.graph.graph import Group
from aoec.ir.text.keys import key
from aoec.ir.text.parse import parse_trace
from aoec.jobs.bank.cann_compare import Compared, compare_seeds, place, table
from aoec.jobs.bank.cann_import import Taken, funcs, pack_right_operand, short_name, take
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.order import Order, keys
from aoec.jobs.tune.starts import starts
from aoec.search.proof.rank import Rank
from aoec.search.vendor.vendor import MatmulTiling
from aoec.search.vendor.vendor_back import Delivery, tiling_of
from aoec.target.machine import load

MACHINE = load("Ascend910B3")
SMALL = Product(256, 512, 384, trans_b=True)
TILING = MatmulTiling(usedCoreNum=6, singleCoreM=128, singleCoreN=128, singleCoreK=512, baseM=128, baseN=128, baseK=64, depthA1=4,
                      depthB1=4, stepKa=2, stepKb=2, iterateOrder=1)


def test_products_of_int8_become_schedules_too(tmp_path: Path) -> None:
    op_key = {**key_of(Product(304, 1024, 2000, trans_b=True))[1], "a_dtype": 2, "b_dtype": 2, "reserved_bool": True}
    tiling = {n: 1 for n in kinds()["QuantBatchMatmulV3"].knowledge} | {
        "m_dim": 2, "n_dim": 5, "m_l0": 5, "n_l0": 12, "k_l0": 4, "k_al1": 8, "k_bl1": 16, "db_al1": 2, "db_bl1": 2}
    path = tmp_path / file_name("Ascend910B3", 20, "QuantBatchMatmulV3")
    path.write_text(line("QuantBatchMatmulV3", op_key, tiling))
    made = Bank.open(tmp_path / "bank.db")
    (seed,) = take([str(path)], lambda: made, None, lambda done, of: None).seeds
    assert short_name(seed.problem) == "QuantBatchMatmulV3 304x1024x2000 int8 B^T" and len(seed.schedules) == 2


def text(p: Product | Window, tiling: dict[str, int]) -> str:
    op, key_fields = key_of(p)
    return line(op, key_fields, knowledge_of(p, tiling))


def lines(count: int) -> list[str]:
    return [text(replace(SMALL, m=16 * (i + 1)), asdict(TILING)) for i in range(count)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's bank folder: two files, of which one holds what nobody can say."""
    mine, theirs = tmp_path / "mine" / "unified_bank", tmp_path / "theirs"
    mine.mkdir(parents=True)
    theirs.mkdir()
    split = json.loads(lines(1)[0])
    split["knowledge"]["tilingEnable"] = 2
    split["info_dict"]["m"] = 4096
    (mine / file_name("Ascend910B3", 20, "MatMulV3")).write_text("\n".join([*lines(3), json.dumps(split), '{"op": "Softmax"}']))
    (theirs / file_name("Ascend910B3", 20, "MatMulV3")).write_text(lines(2)[1])
    (theirs / file_name("Ascend999", 20, "MatMulV3")).write_text(lines(1)[0])
    return tmp_path


def taken(folder: Path, bank: Path, *more: str) -> Taken:
    made = Bank.open(bank)
    return take([str(folder / "mine"), str(folder / "theirs"), *more], lambda: made, None, lambda done, of: None)


def test_every_line_is_a_schedule_or_counted(folder: Path, tmp_path: Path) -> None:
    found = taken(folder, tmp_path / "bank.db")
    assert (found.files, found.lines, len(found.seeds)) == (3, 6, 3)
    assert found.others == {"MatMulV3: tilingEnable 2: a core adds up parts of k in GM": 1,
                            "Softmax: a record lacks id, info_dict, knowledge, version": 1,
                            "a key that was there already: the first stays, as CANN has it": 1,
                            "no machine model of Ascend999; --target takes its records for another machine": 1}
    assert len(found.seeds) + found.others.total() == found.lines + 1  # one line was no record
    assert found.kept == ["added"] * 6
    assert taken(folder, tmp_path / "bank.db").kept == ["kept"] * 6  # a second run knows them


def test_a_record_is_the_schedule_of_its_tiling(folder: Path, tmp_path: Path) -> None:
    taken(folder, tmp_path / "bank.db")
    func = lower_operator("matmul(m=32, k=512, n=384, trans_b, nd)")
    (record,) = Bank.open(tmp_path / "bank.db").of_funcs([key(func)])
    assert record.key.state == f"cold inputs{IMPORTED}" and record.ticks == record.default_ticks and record.bound_ticks <= record.ticks
    d = tiling_of(func, parse_trace(record.trace), MACHINE)
    assert isinstance(d, Delivery) and d.differs == () and isinstance(d.tiling, MatmulTiling)
    assert (d.tiling.baseN, d.tiling.baseK, d.tiling.stepKa, d.tiling.usedCoreNum) == (128, 64, 2, 3)


def test_searches_begin_with_it_and_no_lookup_takes_it(folder: Path, tmp_path: Path) -> None:
    taken(folder, tmp_path / "bank.db")
    bank = Bank.open(tmp_path / "bank.db")
    func = lower_operator("matmul(m=32, k=512, n=384, trans_b, nd)")
    task = Task(Group("g0", "cube", ("n0",)), func, key(func), (), (), "matmul")
    assert bank.claims(keys(task, MACHINE)) == {}
    (record,) = bank.of_funcs([task.func_key])
    found, words = starts([task], MACHINE, bank, Order(True))
    assert [*found] == [task.func_key] and found[task.func_key][0] == record.trace
    assert words == "the bank has starting points for 1 group with CANN's own tilings"
    near = lower_operator("matmul(m=32, k=512, n=400, trans_b, nd)")
    assert starts([replace(task, func=near, func_key=key(near))], MACHINE, bank, Order(True))[0][key(near)]


def test_a_key_is_of_weights_in_rows_and_packed() -> None:
    rows, weights = funcs(SMALL)
    assert weights == replace(lower_operator("matmul(m=256, k=512, n=384)"), name=weights.name)
    assert rows == lower_operator("matmul(m=256, k=512, n=384, trans_b, nd)")
    for dtype in ("fp16", "fp32"):
        for trans_b in (False, True):
            _, weights = funcs(replace(SMALL, dtype=dtype, trans_b=trans_b))
            assert weights == replace(lower_operator(f"matmul(m=256, k=512, n=384, {dtype})"), name=weights.name)
    (nz,) = funcs(replace(SMALL, nz_b=True, bias=True))
    assert nz == pack_right_operand(lower_operator("matmul(m=256, k=512, n=384, bias, nd)"))
    rows, weights = funcs(Product(256, 512, 384, "int8", "int32"))
    assert rows == replace(lower_operator("matmul(m=256, k=512, n=384, int8, trans_b, nd)"), name=rows.name)
    assert weights == replace(lower_operator("matmul(m=256, k=512, n=384, int8)"), name=weights.name)
    assert funcs(Product(256, 512, 384, "int8", "int32", nz_b=True, trans_b=True)) == [weights]
    (conv,) = funcs(Window(1, 64, 14, 14, 96, 3, 3, pads=(1, 1, 1, 1)))
    assert conv == lower_operator("conv2d(n=1, c=64, h=14, w=14, co=96, kh=3, kw=3, pad=1)")


def test_a_comparison_is_of_one_model(folder: Path, tmp_path: Path) -> None:
    (seed, *_) = taken(folder, tmp_path / "bank.db").seeds
    (first,) = list(compare_seeds([seed], ("trials", 8), 0, lambda done, of: None))
    assert isinstance(first, Compared)
    assert first.vendor_us == pytest.approx(seed.schedules[0][2] * MACHINE.us_per_tick)
    assert first.best_us <= min(first.vendor_us, first.default_us)
    assert (first.rank.faster > 0) == (first.best_us < first.vendor_us)
    shown = table([first, "MatMulV3 1x1x1 fp16: no reason"])
    assert shown.startswith("modelled, from cold inputs:\n") and short_name(seed.problem) in shown and "1 key:" in shown
    assert place(replace(first, rank=Rank(3, True), member=True)) == "3 faster"
    assert place(replace(first, rank=Rank(3, False), member=True)) == "at least 3 faster"


# ---------------------------------------------------------------- the command

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["bank", "import-cann", *words, "--bank", str(tmp_path / "bank.db")])
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


def test_the_command_tells_and_prints_json(folder: Path, run: Run) -> None:
    code, out, _ = run(str(folder))
    assert code == 0 and out.startswith("6 records in 3 files: 3 became schedules") and "      1  MatMulV3: tilingEnable 2" in out
    code, out, _ = run(str(folder / "theirs"), "--target", "Ascend910B1", "--json")
    facts = json.loads(out)
    assert code == 0 and {s["target"] for s in facts["schedules"]} == {"Ascend910B1"}
    assert facts["kind"] == "modelled" and facts["others"] == []


@pytest.mark.parametrize(("words", "says"), [(["none.json"], "none.json"), (["."], "no run-time banks"),
                                             (["."], "runtime_kb.json"), ([".", "--target", "Ascend1"], "Ascend1")])
def test_wrong_input_is_one_sentence(words: list[str], says: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*words)
    assert code == 2 and out == "" and says in err and err.count("\n") == 1 and "Traceback" not in err
    assert not (tmp_path / "bank.db").exists()


@pytest.mark.slow
def test_a_thousand_records(tmp_path: Path) -> None:
    path = tmp_path / file_name("Ascend910B3", 20, "MatMulV3")
    path.write_text("\n".join(lines(1000)))
    made = Bank.open(tmp_path / "bank.db")
    found = take([str(path)], lambda: made, None, lambda done, of: None)
    assert len(found.seeds) == 1000 and found.others.total() == 0
