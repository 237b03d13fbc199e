"""The bench that holds the model to published measurements: its reader, its figures, its conversion, and cases end to end."""
from __future__ import annotations

import csv
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import aoec.report.fidelity as fidelity_module
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.tune.tuning import problem, start
from aoec.jobs.version import model_version
from aoec.ops.meanings import macs
from aoec.report.fidelity import Fidelity, figures, known_version, near
from aoec.report.fidelity import as_dict as fidelity_dict
from aoec.simulate.timing.time import measure
from aoec.target.machine import load as load_machine
from bench.cases.build import only_func, with_work
from bench.cases.case import Case, CaseError, parse_cases, read_cases
from bench.cases.convert import convert, shape_of
from bench.cases.cube import even_grid, filled
from bench.cases.draft import Net
from bench.cases.facts import facts_toml
from bench.cases.graphs import graph_of, reduced
from bench.cases.library import text as library_text
from bench.cases.library import tuned
from bench.cases.micro import copy_program
from bench.cases.models import IMAGES, TEXTS, Model
from bench.cases.near import Done, likeness, scheduled
from bench.cases.plot import svg
from bench.cases.score import Result, leave_one_out, pairs, score, spearman, worst
from bench.cases.show import summary
from bench.cases.variants import words_of
from bench.cases.words import WORDS, parse_tile
from bench.fidelity import main

ROOT = Path(__file__).parents[2]
HEADER = "id,chip,operator,shape,dtype,layout,tile,metric,value,unit,source,class,pair,confidence,warning"
ROW = "a1,910B1,matmul,m=64 n=64 k=64,fp16,nd,base=64x64x64 cores=1,time,5,us,someone@1:file,tile,,high,"


def case(**changes: str) -> str:
    """A file of one row with some cells changed."""
    cells = dict(zip(HEADER.split(","), ROW.split(","))) | changes
    return HEADER + "\n" + ",".join(f'"{v}"' for v in cells.values()) + "\n"


def results(modelled: list[float], measured: list[float], source: str = "s", pair: str = "p") -> list[Result]:
    """Results of cases of one ladder."""
    out = []
    for i, (x, y) in enumerate(zip(modelled, measured)):
        (c,) = parse_cases(case(id=f"{source}{i}", value=repr(y), source=source, pair=f"{pair}:{i}", tile=f"cores={i + 1}"))
        out.append(Result(c, x))
    return out


# ---------------------------------------------------------------- reader

def test_a_row_is_read() -> None:
    (c,) = parse_cases(case(shape="m=n=8192 k=64", dtype="fp16->fp32", value="1.5", unit="ms", metric="latency_mean",
                           pair="ladder:2 other:0"))
    assert c.shape.sizes == {"m": 8192, "n": 8192, "k": 64} and c.dtypes == ("fp16", "fp32") and c.dtype_known
    assert (c.metric, c.value, c.pairs) == ("time", 1500.0, (("ladder", 2), ("other", 0)))
    assert c.tile.numbers("base") == (64, 64, 64) and c.publisher == "someone"


@pytest.mark.parametrize("changes, words", [
    ({"value": "nan"}, "finite"), ({"value": "-3"}, "above zero"), ({"value": "fast"}, "no number"), ({"unit": "furlong"}, "unit"),
    ({"metric": "speed"}, "metric"), ({"shape": "8192*8192"}, "no tensor"), ({"shape": "m=8192 n"}, "no name=size"),
    ({"shape": "99999999x99999999"}, "more than"), ({"dtype": "fp12"}, "dtype"), ({"tile": "bose=1x2x3"}, "did you mean base"),
    ({"tile": "base=1"}, "takes 2 to 3 numbers"), ({"tile": "norm=3"}, "no number"), ({"tile": "cores=2 cores=3"}, "twice"),
    ({"tile": "cores=-2"}, "no number from 1"), ({"class": "best"}, "class"), ({"pair": "ladder"}, "name:step"),
    ({"confidence": "sure"}, "confidence"), ({"chip": ""}, "column chip is empty"), ({"id": "a\x1b[2J"}, "control character"),
    ({"source": "x" * 70_000}, "characters"), ({"shape": "x".join("1" * 9)}, "no tensor")])
def test_bad_cells_are_one_clear_line(changes: dict[str, str], words: str) -> None:
    with pytest.raises(CaseError) as e:
        parse_cases(case(**changes), "f.csv")
    said = str(e.value)
    assert words in said and "f.csv, line 2" in said and "\n" not in said and len(said) < 700


@pytest.mark.parametrize("text, words", [
    ("", "no column id"), ("id,chip\n", "no column operator"), (HEADER + ",colour\n", "unknown column"), (HEADER + ",id\n", "twice"),
    (HEADER + "\na,b\n", "cells are needed"), (HEADER + "\n" + ROW + ",x\n", "cells are needed"), (HEADER + '\n"a', "no CSV"),
    ("\0", "NUL"), (case() + ROW + "\n", "stands in line 2 already")])
def test_bad_files_are_one_clear_line(text: str, words: str) -> None:
    with pytest.raises(CaseError) as e:
        parse_cases(text, "f.csv")
    assert words in str(e.value) and "\n" not in str(e.value)


def test_files_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xff\xfe")
    for bad, words in ((path, "no UTF-8"), (tmp_path / "none.csv", "cannot be read"), (tmp_path, "cannot be read")):
        with pytest.raises(CaseError, match=words):
            read_cases([bad])
    path.write_text(case())
    with pytest.raises(CaseError, match="already"):
        read_cases([path, path])
    with pytest.raises(CaseError, match="more than"):
        parse_cases(HEADER + "\n" + "".join(ROW.replace("a1", f"a{i}") + "\n" for i in range(20_001)))


@given(st.text(max_size=80))
def test_hostile_words_are_refused_or_read(text: str) -> None:
    try:
        tile = parse_tile(text)
    except ValueError as e:
        assert "\n" not in str(e)
        return
    assert tile.trace or parse_tile(str(tile)) == tile


@given(st.dictionaries(st.sampled_from(sorted(WORDS)), st.lists(st.integers(1, 10**6), min_size=3, max_size=3), max_size=6))
def test_words_are_shown_as_they_are_read(found: dict[str, list[int]]) -> None:
    tile = parse_tile(" ".join(f"{n}=" + "x".join(map(str, v[:WORDS[n][1]])) if WORDS[n][1] else n for n, v in found.items()))
    assert parse_tile(str(tile)) == tile


# ---------------------------------------------------------------- figures

@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=3, max_size=12))
def test_spearman_is_scipys(points: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in points], [float(b) for _, b in points]
    ours = spearman(x, y)
    if len(set(x)) < 2 or len(set(y)) < 2:
        assert ours is None
    else:
        assert ours == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-9)


def test_errors_and_signs_by_hand() -> None:
    s = score(results([110.0, 90.0, 40.0, 40.0], [100.0, 100.0, 50.0, 40.0]))
    assert s.mean_error == pytest.approx((0.1 + 0.1 + 0.2 + 0.0) / 4) and s.median_error == pytest.approx(0.1)
    assert (s.pairs, s.right_pairs) == (2, 1)  # equal measurements are no pair; equal models of unequal ones are wrong
    assert score([]).mean_error is None and score([]).spearman is None


def test_one_schedule_measured_twice_is_no_pair() -> None:
    first, second = results([100.0, 100.0], [100.0, 90.0])
    assert not pairs([first, replace(second, case=replace(second.case, tile=first.case.tile))]) and len(pairs([first, second])) == 1


def test_what_is_not_modelled_is_in_no_figure() -> None:
    some = results([100.0, 100.0], [100.0, 200.0])
    unknown = Result(some[1].case, None, reason="no such operator")
    assert score([some[0], unknown]).rows == 1 and not pairs([some[0]])


def test_leave_one_out_leaves_one_out() -> None:
    left = leave_one_out(results([100.0], [100.0], "good") + results([300.0], [100.0], "bad"))
    assert left["bad"].mean_error == 0 and left["good"].mean_error == pytest.approx(2.0)


def test_worst_is_by_factor() -> None:
    found = worst(results([50.0, 180.0, 100.0], [100.0] * 3), 2)
    assert [r.modelled for r in found] == [50.0, 180.0]


# ---------------------------------------------------------------- conversion

def row(**changes: str) -> dict[str, str]:
    """A row of a table of measurements."""
    base = {"id": "m1", "chip": "910B1", "op": "matmul", "shape": "M=N=K=8192", "dtype": "fp16", "layout": "ND", "variant": "",
            "metric": "latency",
            "value": "10", "unit": "us", "cann": "", "source": "s", "confidence": "high", "notes": "class=tile"}
    return base | changes


@pytest.mark.parametrize("variant, words", [
    ("4x6 cores, base 128x256x64, MDL, depthA1=16 stepKa=8 (L1 full)", "base=128x256x64 grid=4x6 stepka=8 deptha=16 mdl"),
    ("L1 32x320x128 L0 32x320x32 (20 blocks)", "base=32x320x32 l1=32x320x128"), ("1 AIV, tile 2048 elems", "cores=1 tile=2048"),
    ("ND2NZ tile 64x256, 24 AIC", "cores=24 tile=64x256 nd2nz"), ("split-K over 2 cores (K=512 each)", "splitk=2 cores=2"),
    ("Triton-Ascend BM50 SUB25 BN512 grid 20", "tile=50x512 sub=25 programs=20"), ("no L2 split", ""), ("L2 cache split", "l2=2"),
    ("Triton-Ascend BN32 grid 40", "tile=32 programs=40"),
    ("AIV tile 144x128, UB C0 stride 145 (padded)", "tile=144x128 ubstride=145")])
def test_variants_become_words(variant: str, words: str) -> None:
    assert words_of("matmul", "", variant, "", None) == parse_tile(words).words


def test_a_step_takes_over_what_it_adds_to() -> None:
    cases = convert([row(variant="API: 4x6 cores, base 128x256x64, MDL"), row(id="m2", variant="API: + UnitFlag", value="9"),
                     row(id="m3", op="add", shape="80M + 80M", variant="x", notes="class=lib"), row(id="m4", notes="class=comm")])
    assert [c["id"] for c in cases] == ["m1", "m2", "m3"]
    assert cases[1]["tile"] == cases[0]["tile"] + " unitflag" and cases[2]["shape"] == "83886080 + 83886080"
    assert [c["pair"][-2:] for c in cases] == [":0", ":1", ""]


def test_rows_of_the_high_level_api_read_their_tiling() -> None:
    guide = "Ascend C best-practice guide (x@1)"
    rows = [row(source=guide, variant="base 128x256x64"), row(id="m2", source=guide, variant="base 128x256x64, constant tiling"),
            row(id="m3", source="x@1:a/matmul_high_performance/README.md", variant="base 64x64x64"), row(id="m4", variant="base 64x64x64"),
            row(id="m5", source=guide, shape="M=1 N=2 K=3", variant="1 core, Norm"),
            row(id="m6", source=guide, shape="M=1 N=2 K=3", variant="1 core, IBShare A and B", value="9")]
    words = {c["id"]: c["tile"].split()[1:] for c in convert(rows)}
    assert words == {"m1": ["runtime"], "m2": ["constant"], "m3": ["runtime", "norm"], "m4": [],
                     "m5": ["norm", "mix"], "m6": ["ibshare", "mix"]}


def test_shapes_of_tables() -> None:
    assert shape_of(row(op="conv2d", shape="N=32 C=256 H=56 W=56 K=512 R=S=1 stride~2 out 28x28")) == (
        "n=32 c=256 h=56 w=56 k=512 kh=kw=1 stride=2 ho=28 wo=28")
    assert shape_of(row(op="reduce_max", shape="16x32 axis=1")) == "16x32 -> 16"
    assert shape_of(row(op="model_vit", shape="batch=4 3x224x224")) == "batch=4 image=3x224x224"


def test_published_cases_are_whole() -> None:
    cases = read_cases([ROOT / "bench/cases/published.csv"])
    counts = {k: sum(c.kind == k for c in cases) for k in ("tile", "micro", "fused", "lib", "e2e")}
    assert counts == {"tile": 143, "micro": 17, "fused": 28, "lib": 202, "e2e": 165}
    assert all(c.source for c in cases) and sum(bool(c.pairs) for c in cases) > 100
    placed = [c for c in cases if c.kind == "tile" and c.operator == "matmul" and c.chip != "950PR" and not c.warning]
    assert sum(c.tile.published for c in placed) >= len(placed) - 3


# ---------------------------------------------------------------- cases end to end

@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 32))
def test_an_even_grid_is_no_worse_than_any(down: int, across: int, cores: int) -> None:
    a, b = even_grid(down, across, cores)
    busiest = -(-down // a) * -(-across // b)
    assert a * b <= cores and filled(down, a) == a
    every = [(x, y) for x in range(1, cores + 1) for y in range(1, cores // x + 1)]
    assert busiest == min(-(-down // x) * -(-across // y) for x, y in every)


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[str], *words: str) -> dict[str, object]:
    path = tmp_path / "cases.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    assert main([str(path), "--json", *words]) == 0
    return {c["id"]: c for c in json.loads(capsys.readouterr().out)["cases"]}  # type: ignore[return-value]


def test_cases_go_the_way_they_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Small bursts cost, cores help, double slots help, and what cannot be said is listed with the reason."""
    rows = [
        "c1,910B1,copy_gm_to_ub,1536x1536,fp16,nd,cores=48 tile=1x64,time,9,us,s,micro,,,",
        "c2,910B1,copy_gm_to_ub,1536x1536,fp16,nd,cores=48 tile=32x512,time,3,us,s,micro,,,",
        "v1,910B4,add,1048576 + 1048576,fp16,nd,cores=1 tile=2048,time,9,us,s,tile,,,",
        "v8,910B4,add,1048576 + 1048576,fp16,nd,cores=8 tile=2048,time,3,us,s,tile,,,",
        "m1,910B1,matmul,m=n=k=512,fp16,nd:nk,base=128x128x64 cores=16 norm,time,9,us,s,tile,,,",
        "m2,910B1,matmul,m=n=k=512,fp16,nd:nk,base=128x128x64 cores=16 mdl,time,5,us,s,tile,,,",
        "r1,910B1,reduce_sum,64x4096 -> 64,fp32,nd,tile=1x512 cores=40,time,9,us,s,tile,,,",
        "x1,910B1,topk,64x4096,fp32,nd,cores=4,time,9,us,s,tile,,,", "x2,911Z,add,64 + 64,fp32,nd,cores=4,time,9,us,s,tile,,,"]
    found = run(tmp_path, capsys, rows, "--svg", str(tmp_path / "f.svg"), "--eligible", str(tmp_path / "e.csv"))
    value = {k: c["modelled"] for k, c in found.items()}  # type: ignore[index]
    assert value["c1"] > 1.5 * value["c2"] and value["v1"] > 4 * value["v8"] and value["m1"] > value["m2"] and value["r1"] > 0
    assert value["x1"] is None and "sorting instructions" in found["x1"]["reason"] and "911Z" in found["x2"]["reason"]  # type: ignore[index]
    listed = {r["id"]: r for r in csv.DictReader((tmp_path / "e.csv").open())}
    assert listed["c1"]["eligible"] == "yes" and listed["x1"]["eligible"] == "no" and len(listed) == len(rows)
    assert len(re.findall("<circle", (tmp_path / "f.svg").read_text())) == 7 + 4  # cases, and the legend's classes


def test_results_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["c2,910B1,copy_gm_to_ub,1536x1536,fp16,nd,cores=48 tile=32x512,time,3,us,s,micro,,,"]
    first = run(tmp_path, capsys, rows, "--bank", str(tmp_path / "kept"))
    kept = (tmp_path / "kept").read_text()
    assert run(tmp_path, capsys, rows, "--bank", str(tmp_path / "kept")) == first and (tmp_path / "kept").read_text() == kept
    assert kept.count("\n") == 1


def test_what_is_no_schedule_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Messages, shared calls and passes in front are not modelled as something else; words without effect say so; tiling costs a head."""
    rows = [f"{words or 'own'},910B1,matmul,m=n=k=256,fp16,nd,base=128x128x64 cores=4 {words},max_core_time,9,us,s,tile,,,"
            for words in ("", "runtime", "constant", "preload", "mix", "ibshare", "prepack")]
    found = run(tmp_path, capsys, rows)
    value = {k: c["modelled"] for k, c in found.items()}  # type: ignore[index]
    assert value["runtime"] - value["constant"] == pytest.approx(3.54 - 2.19, abs=0.01)  # the guide's times before the first load
    own_head = (882 + 15.9 * 4) / 1850
    assert value["constant"] - value["own"] == pytest.approx(2.19 - own_head, abs=0.01) and value["preload"] <= value["own"]
    for name, why in (("mix", "messages"), ("ibshare", "shared between"), ("prepack", "a pass before")):
        assert value[name] is None and why in found[name]["reason"]  # type: ignore[index]


def test_cold_inputs_come_from_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["p,910B1,matmul,m=128 n=4096 k=1024,fp16,nd:nk,base=128x256x64 cores=16 mdl,time,9,us,s,tile,,,"]
    warm, cold = (run(tmp_path, capsys, rows, "--state", s)["p"]["modelled"] for s in ("previous", "cold"))  # type: ignore[index]
    assert cold > 1.2 * warm and cold > 8.65e6 / 1.6e6  # 8.65 MB of A and B, at HBM's 1.6 TB/s and not at L2's 5


def test_the_profiler_decides_what_l2_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the row says, else as the publisher's tool does; what is told otherwise goes for all rows."""
    head = HEADER + ",profiler"
    row = "{},910B1,matmul,m=128 n=4096 k=1024,fp16,nd:nk,base=128x256x64 cores=16 mdl,time,9,us,{},tile,,,,{}"
    path = tmp_path / "cases.csv"
    path.write_text("\n".join([head, row.format("own", "someone", "msopprof"), row.format("told", "hicann/catlass@1:doc", ""),
                               row.format("other", "hicann/catlass@1:doc", "other"), row.format("none", "someone", "")]) + "\n")
    value = {}
    for state in ("profiler", "cleared", "previous"):
        assert main([str(path), "--json", "--state", state]) == 0
        value[state] = {c["id"]: c["modelled"] for c in json.loads(capsys.readouterr().out)["cases"]}
    assert len(set(value["cleared"].values())) == len(set(value["previous"].values())) == 1
    cleared, previous = value["cleared"]["own"], value["previous"]["own"]
    assert cleared > previous and value["profiler"] == {"own": cleared, "told": cleared, "other": previous, "none": previous}


def test_a_tile_that_is_open_is_searched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{name},910B1,matmul,m=n=k=1024,fp16,nd:nk,{words},time,9,us,s,tile,,,"
            for name, words in (("o", "runtime"), ("b", "base=64x64x64 cores=1"))]
    found = run(tmp_path, capsys, rows)
    assert found["o"]["modelled"] < 0.1 * found["b"]["modelled"]  # type: ignore[index]


def test_a_trace_of_ours_is_a_schedule_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = 'sched { split(loop=i0, factor=64) }'
    found = run(tmp_path, capsys, [f'a,910B3,relu,4096,fp32,nd,"{words}",time,3,us,s,tile,,,',
                                   "b,910B3,relu,4096,fp32,nd,trace=none.sched,time,3,us,s,tile,,,",
                                   "c,910B3,relu,4096,fp32,nd,tile=512 cores=8,time,3,us,s,tile,,,"])
    assert "?" not in found["a"]["reason"] and found["a"]["modelled"] is None and "none.sched" in found["b"]["reason"]  # type: ignore[index]


def test_refusals_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.csv"
    path.write_text(case())
    for words, said in ((["--only", "zz"], "no case"), (["--class", "zz"], "none of")):
        assert main([str(path), *words]) == 2
        assert said in capsys.readouterr().err


# ---------------------------------------------------------------- vendor kernels, models, and the figures that results carry

def test_vendor_kernels_are_held_to_our_best() -> None:
    """Our best is no faster than the bound, and a row that aoec has no operator for says so."""
    add, = parse_cases(case(operator="add", shape="65536 + 65536", tile="", **{"class": "lib"}))
    r = tuned(add, 0)
    assert r.modelled is not None and r.bound is not None and r.modelled >= r.bound
    quick, slow = (Result(c, r.modelled, bound=r.bound) for c in (replace(add, value=r.modelled / 2), replace(add, value=r.modelled * 3)))
    said = library_text([quick, slow, replace(slow, modelled=None, reason="no operator")])
    assert "<= 1.1 for 1 = 50.0%" in said and "2 of 3 rows" in said and "not expressed: no operator" in said


@pytest.mark.parametrize("words, groups, inputs", [
    ({"operator": "conv2d", "shape": "n=2 c=32 h=14 w=14 k=48 kh=kw=3", "layout": "nc1hwc0"}, ["conv2d_packed"], [(2, 32, 14, 14)]),
    ({"operator": "softmax", "shape": "3x4x2x5x16x16 -> 3x4x2x5x16x16", "layout": "nz:nz"}, ["softmax"], [(3, 4, 80, 32)]),
    ({"operator": "div", "shape": "4x48 + 1x1 -> 4x48"}, ["muls"], [(4, 48)]),
    ({"operator": "softmax", "shape": "8x64"}, ["softmax"], [(8, 64)])])
def test_the_graph_of_a_vendor_kernel(words: dict[str, str], groups: list[str], inputs: list[tuple[int, ...]]) -> None:
    """Tensors lie as the row says, so that nothing is converted; matrices are read out of fractals; a number is a scalar."""
    row, = parse_cases(case(tile="", **words))
    graph = graph_of(row, flat=row.operator == "softmax")
    assert [n.op for n in graph.nodes] == groups and len(graph.groups) == 1
    assert [t.shape for t in graph.tensors if t.name in graph.inputs] == inputs


def test_a_grid_that_a_trace_can_state() -> None:
    """256 tiles on 40 cores are seven each, which 37 of them make; 512 are thirteen each."""
    row, = parse_cases(case(operator="add_broadcast", shape="131072x16 + 1x16", dtype="fp32", tile="sub=512 programs=40"))
    assert [with_work(only_func(row), tile, 40) for tile in (512, 256, 131072)] == [37, 40, 1]


@pytest.mark.parametrize("shape, result, axes", [
    ((16, 39, 80), (16, 80), (1,)), ((16, 39), (39,), (0,)), ((16, 39), (1,), (0, 1)), ((7,), (), (0,))])
def test_axes_of_a_reduction(shape: tuple[int, ...], result: tuple[int, ...], axes: tuple[int, ...]) -> None:
    assert reduced(shape, result) == axes


# (side of the image, multiply-accumulates of one in billions) as the papers and their libraries state them
IMAGE_WORK = {"resnet18": (224, 1.82), "resnet34": (224, 3.67), "resnet50": (224, 4.1), "resnet101": (224, 7.8), "resnet152": (224, 11.5),
              "resnext50": (224, 4.25), "vgg16": (224, 15.5), "mobilenet_v1": (224, 0.57), "mobilenet_v2": (224, 0.30),
              "googlenet": (224, 1.5), "vit_b32": (224, 4.41), "vit_b16": (224, 17.6), "vit_b8": (224, 78.2),
              "efficientnet_v2_s": (384, 8.37), "retinanet": (800, 149.6), "ssd300": (300, 34.4),
              "unet": (256, 55.84 - 3 * 2.15),  # UNeXt's table 1, whose tool counts what transposed convolutions do (2.15) four times
              "yolov3": (416, 32.95), "yolov4": (608, 64.2), "yolox_tiny": (640, 7.63), "yolov7_w6": (1280, 180.0)}
UNSTATED = {"ssd_resnet34"}  # of 300 pixels: only its larger variant has a published figure
# tokens, and of them the weights of all layers and two products of attention each; the head of masked words
TEXT_WORK = {"bert_base": (512, 48.3), "bert_base_chinese": (384, 35.5 + 0.384 * 768 * (768 + 21128) / 1e6),
             "bert_large_squad": (384, 123.0)}


def work_of(net: Model) -> float:
    """Multiply-accumulates of the cube unit in billions."""
    return sum(macs(n.op, [net.shape(i) for i in n.inputs], n.attributes) for n in net.draft.nodes if n.op in ("conv2d", "matmul")) / 1e9


@pytest.mark.parametrize("name", sorted({*IMAGES, *TEXTS} - UNSTATED))
def test_models_have_their_papers_work(name: str) -> None:
    """Within 5 %."""
    net = Model(name, "fp16")
    with patch.object(Net, "zeros", lambda self, label, shape, dtype="": self.input(self.draft.fresh(label), shape)), \
            patch.object(Net, "graph", lambda self, *outputs: None):
        if name in IMAGES:
            side, stated = IMAGE_WORK[name]
            IMAGES[name](net, net.input("data", (1, 3, side, side)))
        else:
            seq, stated = TEXT_WORK[name]
            TEXTS[name](net, 1, seq)
    assert work_of(net) == pytest.approx(stated, rel=0.05)


def test_figures_are_carried(capsys: pytest.CaptureFixture[str]) -> None:
    made = results([110.0, 90.0], [100.0, 200.0])
    told = tomllib.loads(facts_toml(made))
    assert told["model_version"] == model_version()
    assert told["row"] == [{"target": "Ascend910B1", "operator_class": "matmul", "rows": 2, "median_error": 0.325, "mean_error": 0.325,
                            "pairs": 1, "right_pairs": 0}]


def test_what_is_said_of_a_target() -> None:
    some = [Fidelity("Ascend910B1", "matmul", 3, 0.05, 0.06, 2, 2)]
    with patch.object(fidelity_module, "figures", lambda: tuple(some)), patch.object(fidelity_module, "known_version", lambda: "v1"):
        assert near("Ascend910B1", ["matmul"], "v1") == [
            ("matmul", "3 published rows, median error 5%, 2 of 2 pairs of variants ordered rightly")]
        ((_, words),) = near("Ascend910B4", ["matmul"], "v1")
        assert words.startswith("nothing published for Ascend910B4; Ascend910B1, the nearest chip that has some: 3 published")
        assert near("my_own", ["matmul", "conv"], "v1") == [("matmul, conv", "nothing published for my_own")]
        assert "this is v2" in near("Ascend910B1", ["matmul"], "v2")[0][1]
        assert fidelity_dict("Ascend910B4", ["matmul", "conv"], "v2") == {
            "classes": {"matmul": {"target": "Ascend910B1", "own": False, "rows": 3, "median_error": 0.05, "mean_error": 0.06,
                                   "sign_accuracy": 1.0}, "conv": None}, "figures_of": "v1", "stale": True}


def test_shipped_figures_are_whole() -> None:
    assert figures() and known_version() and all(f.rows > 0 and 0 <= f.right_pairs <= f.pairs and f.mean_error >= 0 for f in figures())


def test_tables_and_plot_of_nothing() -> None:
    assert "</svg>" in svg([], "nothing") and summary([])["counted"]["all"].rows == 0
    assert isinstance(parse_cases(case())[0], Case) and np.isfinite(parse_cases(case())[0].value)


def test_a_schedule_serves_its_like_at_another_batch() -> None:
    """Fitted to eight images, what was found for four is as good as the default, and was not laid out anew."""
    machine, done, made = load_machine("Ascend310P3"), Done(), []
    for batch in (4, 8):
        net = Model("net", "fp16")
        net.machine = machine
        graph = net.graph(net.conv(net.input("x", (batch, 32, 7, 7)), 32, 1, act="leaky"))
        made.append(next(t for t in tasks(graph, machine, warm=True) if t.label.startswith("conv2d")))
    assert likeness(made[0], machine) == likeness(made[1], machine)
    _, (p, second) = (scheduled(t, machine, done) for t in made)
    assert len(done.schedules) == 1 and len(p.sketches) == 1 and second.ticks >= second.bound_ticks
    assert second.ticks <= 1.1 * start(problem(made[1].func, machine, made[1].state)).ticks

def test_copies_of_quarters_that_fit_hit_as_often_as_published() -> None:
    """12288^2 fp16 on a 950PR, in quarters of 75 MB of its 128 MB of L2, each read four times by 64 cores: the published hit rate is
    66.6 %. Cores have 48 rows of a quarter each, fewer than a tile of 64 has: no row is read twice for that."""
    (row,) = parse_cases(case(chip="950PR", operator="copy_gm_to_ub", shape="12288x12288", tile="cores=64 tile=64x1024 passes=4 parts=4"))
    machine = load_machine("Ascend950PR_958x")
    m = measure(copy_program(row, machine), machine)
    assert m.hbm_bytes + m.l2_bytes == 4 * 2 * 12288**2
    assert m.l2_bytes / (m.hbm_bytes + m.l2_bytes) == pytest.approx(0.666, abs=0.02)


def test_small_kernels_have_a_range() -> None:
    """Nine in ten of those that are modelled below 40 us, of whatever dtype; rows of the 950 generation apart."""
    rows = [parse_cases(case(value=repr(us)))[0] for us in (10.0, 12.0, 30.0, 500.0)]
    results = [Result(row, us) for row, us in zip(rows, (10.0, 10.0, 10.0, 50.0))]
    small = tomllib.loads(facts_toml(results))["small"]
    assert (small["rows"], small["limit_us"], small["median"]) == (3, 40.0, 1.2) and 1.0 <= small["least"] < 1.2 < small["most"] <= 3.0
    assert "small" not in tomllib.loads(facts_toml(results[3:]))
