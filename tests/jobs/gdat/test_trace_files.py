"""Traces of a user's own: each format says the same step, and a bad file is one sentence with its row."""
from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.base.errors import AoecError, CheckError
from aoec.cann.gradient_fusion import record_of, show_records
from aoec.ir.training import Gradient, StepTrace, check_trace
from aoec.jobs.gdat import trace_csv, trace_files
from aoec.jobs.gdat.trace_average import Iteration, Sent, average_trace
from aoec.jobs.gdat.trace_files import read_text_of_trace, read_trace
from aoec.jobs.gdat.trace_json import FORMAT, show_own
from aoec.jobs.gdat.trace_torch import device_time
from tests.oracle.schemas import faults

HERE = Path(__file__).parent
STEP = StepTrace((Gradient("fc.weight", 8_192_000, 31.5, 4050.0), Gradient("fc.bias", 4_000, 32.0, 4055.0),
                  Gradient("conv.weight", 37_632, 9_500.25, 0.0)), 4_100.0, 9_570.0, 350.0, "measured")
CSV = ("# forward_us = 4100\n# backward_us: 9570\n# optimiser_us = 350\nname,bytes,ready_us,read_us\n"
       "fc.weight,8192000,31.5,4050\nfc.bias,4000,32,4055\nconv.weight,37632,9500.25,0\n")


def test_json_and_csv_say_the_same_step() -> None:
    assert read_text_of_trace(CSV, "a.csv").trace == read_text_of_trace(show_own(STEP), "a.json").trace == STEP
    assert faults("gradient_trace", json.loads(show_own(STEP))) == []


SIZES = st.integers(1, 1 << 40)
TIMES = st.floats(0, 1e9).map(lambda x: round(x, 3))
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cf", "Zl", "Zp", "Zs", "Co", "Cn")), min_size=1, max_size=20)


@st.composite
def steps(draw: st.DrawFn) -> StepTrace:
    rows = draw(st.lists(st.tuples(NAMES, SIZES, TIMES), min_size=1, max_size=12))
    ready = sorted(us for _, _, us in rows)
    gradients = tuple(Gradient(name, size, us, draw(TIMES)) for (name, size, _), us in zip(rows, ready))
    return StepTrace(gradients, draw(TIMES), ready[-1] + draw(TIMES), draw(TIMES), "measured")


@given(steps())
def test_what_is_written_is_read_again(step: StepTrace) -> None:
    back = read_text_of_trace(show_own(step), "x").trace
    assert [(g.name, g.size) for g in back.gradients] == [(g.name, g.size) for g in step.gradients]
    assert np.allclose([g.ready_us for g in back.gradients], [g.ready_us for g in step.gradients], atol=1e-5)
    assert np.allclose([back.forward_us, back.backward_us, back.optimiser_us], [step.forward_us, step.backward_us, step.optimiser_us],
                       atol=1e-5)
    record = read_text_of_trace(show_records([record_of(step, "ff" * 32)]), "x").trace
    assert [g.size for g in record.gradients] == [g.size for g in step.gradients]
    gaps = np.array([g.ready_us for g in step.gradients]) - step.gradients[0].ready_us  # the first time is no gap
    assert np.allclose([g.ready_us for g in record.gradients], gaps, atol=1e-4)


def test_columns_of_aoe_are_taken_where_times_stand_beside_them() -> None:
    head = "No,gradient_size(byte),data_type,graph_id,group_name,gradient_node_name,trace_node_name,allreduce_node_name"
    row = "0,400,float32,1,hccl_world_group,grad/a,t,r"
    with pytest.raises(CheckError, match=r"no column ready_us .*gradient_summary.csv holds no times: add a column ready_us"):
        read_text_of_trace(f"{head}\n{row}\n", "gradient_summary.csv")
    read = read_text_of_trace(f"{head},ready_us\n{row},12.5\n", "gradient_summary.csv")
    assert read.trace.gradients == (Gradient("grad/a", 400, 12.5),)
    assert "the trace has no forward pass and no optimiser: the step is counted without, so shares of it are too large" in read.notices


@given(st.lists(st.lists(st.floats(0, 1e6), min_size=3, max_size=3).map(sorted), min_size=1, max_size=7))
def test_iterations_become_their_median_without_the_first(ready: list[list[float]]) -> None:
    """The median of sorted rows is sorted, so a mean step is always one."""
    sent = [Sent(name, 4) for name in "abc"]
    read = average_trace(sent, [Iteration(np.array(r)) for r in ready], "x")
    kept = ready[1:] if len(ready) > 2 else ready
    wanted = [float(np.median([r[n] for r in kept])) for n in range(3)]
    assert [g.ready_us for g in read.trace.gradients] == wanted
    check_trace(read.trace)
    said = json.dumps({"format": FORMAT, "gradients": [{"name": name, "bytes": 4} for name in "abc"],
                       "iterations": [{"ready_us": r} for r in ready]})
    assert read_text_of_trace(said, "x") == read
    rows = "".join(f"{name},4,{us!r},{n}\n" for n, r in enumerate(ready) for name, us in zip("abc", r))
    assert read_text_of_trace(f"name,bytes,ready_us,iteration\n{rows}", "x") == read


def test_an_export_of_torch_is_read() -> None:
    """A profiled CPU run of torch 2.13: four steps of a network of three linear layers, batch 16, SGD with momentum."""
    read = read_trace(str(HERE / "torch_cpu.json"))
    assert [g.size for g in read.trace.gradients] == [4 * n for n in (10, 640, 64, 4096, 64, 2048)]
    assert [g.name for g in read.trace.gradients][:2] == ["gradient 0 [10]", "gradient 1 [10, 64]"]
    assert "times are the median of 3 iterations, the first one dropped as warm-up, measured" in read.notices
    assert any("no kernels of a device" in n for n in read.notices)
    steps = [e for e in json.loads((HERE / "torch_cpu.json").read_text())["traceEvents"] if e["name"].startswith("ProfilerStep")]
    took = sorted(e["dur"] for e in steps[1:])[1]
    assert 0.6 * took < read.trace.compute_us <= took and read.trace.forward_us > 0 < read.trace.optimiser_us


def export(**kernels: float) -> dict[str, Any]:
    """A step of 100 µs on the host: two gradients of 8 and 4 fp32 numbers. `kernels`: when the kernel launched at that time ends."""
    def event(name: str, ts: float, dur: float, cat: str = "cpu_op", args: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "ts": 1e9 + ts, "dur": dur, "args": args or {}}

    grad = "torch::autograd::AccumulateGrad"
    events = [event("ProfilerStep#7", 0, 100, "user_annotation"), event(f"autograd::engine::evaluate_function: {grad}", 40, 12),
              event(grad, 45, 5, args={"Input Dims": [[2, 4]], "Input type": ["float"]}),
              event(grad, 55, 5, args={"Input Dims": [[4]], "Input type": ["float"]}),
              event("autograd::engine::evaluate_function: X", 52, 13), event("Optimizer.step#SGD.step", 70, 20, "user_annotation")]
    for number, (at, end) in enumerate(kernels.items()):
        events += [event("cudaLaunchKernel", float(at[1:]), 1, "cuda_runtime", {"correlation": number}),
                   event("k", end - 5, 5, "kernel", {"correlation": number})]
    return {"traceEvents": events}


def test_times_follow_the_device_where_the_export_has_its_kernels() -> None:
    host = read_text_of_trace(json.dumps(export()), "x").trace
    assert [(g.size, g.ready_us) for g in host.gradients] == [(32, 10.0), (16, 20.0)]
    assert (host.forward_us, host.backward_us, host.optimiser_us) == (40.0, 25.0, 20.0)
    device = read_text_of_trace(json.dumps(export(a10=100.0, a42=300.0, a54=350.0, a72=380.0)), "x")
    assert [g.ready_us for g in device.trace.gradients] == [200.0, 250.0]
    assert (device.trace.forward_us, device.trace.backward_us, device.trace.optimiser_us) == (100.0, 250.0, 30.0)
    assert "ready times follow the kernels of the device" in device.notices


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), max_size=8), st.lists(st.floats(0, 250), min_size=2, max_size=5))
def test_the_time_on_the_device_never_falls_and_is_never_before_the_host(kernels: list[tuple[float, float]], marks: list[float]) -> None:
    at = device_time({n: begin for n, (begin, _) in enumerate(kernels)}, {n: begin + dur for n, (begin, dur) in enumerate(kernels)})
    times = [at(us) for us in sorted(marks)]
    assert times == sorted(times) and all(t >= us for t, us in zip(times, sorted(marks)))
    for us in marks:
        assert at(us) == max([us, *(begin + dur for begin, dur in kernels if begin < us)])


OWN = json.loads(show_own(STEP))


def own(**changes: Any) -> str:
    return json.dumps({**OWN, **changes})


def row(**changes: Any) -> str:
    return own(gradients=[OWN["gradients"][0], {**OWN["gradients"][1], **changes}])


@pytest.mark.parametrize("text, said", [
    ("", "bad: the file is empty"), ("\n \n", "bad: the file is empty"), ("{", "bad: this is not JSON"),
    ("[1]", 'bad: this JSON has no "format"'),
    ("[" * 100_000, "bad: this is not JSON"), ('{"format": ' + "9" * 5_000 + "}", "bad: this is not JSON"),
    (own(format="x"), 'bad: this JSON has no "format"'), (own(times="guessed"), '"times" is \'guessed\'; it is "measured" or "modelled"'),
    (own(gradients=[]), "bad: gradients is no list with entries"), (own(gradients=[3]), "bad: gradients[0] is no object"),
    (row(bytes=-4), '"bytes" is -4; give a whole number'), (row(bytes=0), 'gradients[1]: "bytes" is 0'), (row(bytes=1.5), '"bytes" is 1.5'),
    (row(bytes=True), '"bytes" is True'), (row(bytes=10**400), '"bytes" is 1000'),
    (row(ready_us=float("nan")), '"ready_us" is nan; give µs'),
    (row(ready_us=-1), '"ready_us" is -1'), (row(ready_us="soon"), "\"ready_us\" is 'soon'"), (row(ready_us=None), '"ready_us" is missing'),
    (row(ready_us=1.0), "gradients[1]: the gradient is ready at 1 µs, before the one in front of it at 31.5: times must not fall"),
    (row(ready_us=1e9), "after the backward pass, which takes 9570"), (row(name=""), "the name is ''"), (row(name=7), "the name is 7"),
    (own(forward_us=-1), 'the trace: "forward_us" is -1'), (own(iterations=[]), "iterations is no list with entries"),
    (own(iterations=[{"ready_us": [1.0]}]), "iterations[0] has 1 ready times for 3 gradients"),
    (own(iterations=[{"ready_us": [1.0, 3.0, 2.0]}]), "iterations[0].ready_us[2]: the gradient is ready at 2 µs, before"),
    ("name,bytes\na,4\n", "bad: there is no column ready_us in the first row (name, bytes)"),
    ("name,bytes,ready_us\n", "bad: the file has no gradients"), ("name,bytes,ready_us\na,-4,1\n", "bad: row 2: the size is '-4'"),
    ("name,bytes,ready_us\na,4,1\nb,4,0.5\n", "bad: row 3: the gradient is ready at 0.5 µs, before the one in front of it at 1"),
    ("name,bytes,ready_us\na,4,nan\n", "bad: row 2: ready_us is 'nan'"), ("name,bytes,ready_us\na,4\n", "bad: row 2: ready_us is missing"),
    ("name,bytes,ready_us\na,4,1e999\n", "row 2: ready_us is '1e999'"), ("name,bytes,ready_us\n\"a,4,1\n", "row 2: the size is missing"),
    ("name,bytes,ready_us,iteration\na,4,1,0\nb,4,1,1\n", "iteration 1 has other gradients than iteration 0"),
    ("# forward_us = -3\nname,bytes,ready_us\na,4,1\n", "row 1: forward_us is '-3'"),
    ("# backward_us = 3\nname,bytes,ready_us\na,4,10\n", "ready at 10 µs, after the backward pass, which takes 3"),
    ('{"traceEvents": 4}', "bad: traceEvents is no list"), ('{"traceEvents": []}', "profile with record_shapes=True"),
    (json.dumps([{"modelhash": "1", "modelvalue": {"gradientTime": [0] * 5, "gradientSize": [0] * 5}}]), "bad: the record holds 0 models;"),
    (json.dumps([{"modelhash": "1", "modelvalue": {"gradientTime": [1, 2], "gradientSize": [4]}}]), "bad: entry 0 is no modelhash with"),
    (json.dumps([{"modelhash": "1", "modelvalue": {"gradientTime": [1], "gradientSize": [-4]}}]), "gradientSize[0] is -4"),
    (json.dumps([{"modelhash": str(n), "modelvalue": {"gradientTime": [1], "gradientSize": [4]}} for n in (7, 8)]),
     "the record holds 2 models (7, 8); leave the one that is meant")])
def test_a_bad_trace_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(CheckError) as found:
        read_text_of_trace(text, "bad")
    assert said in str(found.value) and str(found.value).startswith("bad: ") and "\n" not in str(found.value)


@pytest.mark.parametrize("dtype, dims, said", [("c10::Float8", [4], "of type 'c10::Float8', whose size is not known"),
                                               ("float", [-1], "are no list of sizes"), ("float", "x", "are no list of sizes")])
def test_a_gradient_of_unknown_size_is_named(dtype: str, dims: Any, said: str) -> None:
    events = export()["traceEvents"]
    events[2]["args"] = {"Input Dims": [dims], "Input type": [dtype]}
    with pytest.raises(CheckError, match=r"traceEvents\[2\]") as found:
        read_text_of_trace(json.dumps({"traceEvents": events}), "x")
    assert said in str(found.value)


def test_rows_beyond_the_limit_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_csv, "MOST_GRADIENTS", 3)
    with pytest.raises(CheckError, match="the file has more than 3 rows"):
        read_text_of_trace("name,bytes,ready_us\n" + "a,4,1\n" * 4, "x")
    assert len(read_text_of_trace("name,bytes,ready_us\n" + "a,4,1\n" * 3, "x").trace.gradients) == 3


@pytest.mark.slow
def test_a_trace_of_a_million_rows_is_refused_in_bounded_time() -> None:
    text = "name,bytes,ready_us\n" + "".join(f"g{n},4,{n}\n" for n in range(1_000_001))
    begin = time.monotonic()
    with pytest.raises(CheckError, match=r"big\.csv: the file has more than 1,000,000 rows"):
        read_text_of_trace(text, "big.csv")
    assert time.monotonic() - begin < 30


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of 1 GB takes no memory to refuse."""
    monkeypatch.setattr(trace_files, "TRACE_LIMIT_BYTES", 1 << 20)
    with open(tmp_path / "big.json", "wb") as f:
        f.truncate(1 << 30)
    with pytest.raises(AoecError, match=r"big.json is larger than 1,048,576 bytes"):
        read_trace(str(tmp_path / "big.json"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CheckError, match="no UTF-8 text"):
        read_trace(str(tmp_path / "bytes"))


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
ANYTHING = st.recursive(LEAVES, lambda x: st.one_of(st.lists(x, max_size=3), st.dictionaries(st.text(max_size=8), x, max_size=3)),
                        max_leaves=6)
KINDS = [OWN, {**OWN, "iterations": [{"forward_us": 1, "ready_us": [1, 2, 3]}] * 3}, export(a10=100.0, a42=300.0),
         json.loads(show_records([record_of(STEP, "ab" * 32)]))]


def places(said: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each value in a document."""
    inner = said.items() if isinstance(said, dict) else enumerate(said) if isinstance(said, list) else ()
    return [at, *(p for key, value in inner for p in places(value, (*at, key)))]


@settings(max_examples=150)
@given(st.sampled_from(KINDS).flatmap(lambda k: st.tuples(st.just(k), st.lists(st.tuples(st.sampled_from(places(k)), ANYTHING),
                                                                               min_size=1, max_size=3))))
def test_whatever_a_value_becomes_it_is_a_trace_or_a_sentence(case: tuple[Any, list[tuple[tuple[Any, ...], Any]]]) -> None:
    said = json.loads(json.dumps(case[0]))
    for at, value in case[1]:
        of = said
        try:
            for key in at[:-1]:
                of = of[key]
            if at:
                of[at[-1]] = value
            else:
                said = value
        except (TypeError, LookupError):
            pass  # another change took that place away
    read_or_refuse(json.dumps(said))


@given(st.lists(st.text(max_size=20), max_size=6), st.integers(0, 40), st.text(max_size=6))
def test_whatever_lines_are_they_are_a_trace_or_a_sentence(lines: list[str], at: int, put: str) -> None:
    read_or_refuse("\n".join(lines))
    read_or_refuse(CSV[:80 + at] + put + CSV[80 + at + len(put):])


def read_or_refuse(text: str) -> None:
    try:
        check_trace(read_text_of_trace(text, "x").trace)
    except CheckError as e:
        assert len(str(e).split("\n")) == 1
