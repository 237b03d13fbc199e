"""The artifact: what is written comes back, equal ones are equal bytes, hostile and damaged files end as one sentence."""
from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.artifact import archive
from aoec.artifact.artifact import Artifact, Compiled, Port, check, current, digest, load, pack, write
from aoec.base.errors import AoecError, BackendError, CheckError
from aoec.ir.graph.graph import Graph, Group, OpNode
from aoec.ir.graph.graph import Tensor as GraphTensor
from aoec.ir.index import Int
from aoec.ir.program import Program, Stream, Tensor
from aoec.ir.schedule import Step, Trace

W = (np.arange(12, dtype=np.float16) - 5).reshape(3, 4)
B = np.arange(4, dtype=np.float32)
BF = np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3)
WEIGHTS = {"w": W, "w_again": W.copy(), "w_flat": W.reshape(12), "b": B, "bf": BF, "one": np.array(3, dtype=np.int64)}
DTYPES = {"float16": "fp16", "float32": "fp32", "bfloat16": "bf16", "int64": "int64"}


def program(name: str, tensors: tuple[str, ...]) -> Program:
    roles = {t: "output" if t == "Y" else "input" for t in tensors}
    return Program(name, "toy", tuple(Tensor(t, "fp16", (Int(4), Int(4)), roles[t]) for t in tensors), (),
                   (Stream("s", "core", (), (), ()),))


def sample() -> Artifact:
    consts = tuple(GraphTensor(n, DTYPES[a.dtype.name], a.shape or (1,), data=digest(a)) for n, a in WEIGHTS.items())
    made = tuple(GraphTensor(n, "fp16", (4, 4)) for n in ("x", "t", "u", "y"))
    nodes = (OpNode("mm", "matmul", ("x", "w"), ("t",)), OpNode("mm2", "matmul", ("t", "w_again"), ("u",)),
             OpNode("id", "reshape", ("u",), ("y",)))
    groups = (Group("g0", "cube", ("mm",)), Group("g1", "cube", ("mm2",)), Group("g2", "view", ("id",)))
    graph = Graph("tiny", ("x",), ("y",), made + consts, nodes, groups)
    trace = Trace((Step("split", (("loop", "m"), ("factor", Int(16)))),))
    runs = program("mm", ("A", "B", "Y"))
    compiled = tuple(Compiled(g, "matmul 4x4x4", "f" * 64, trace, runs, (("A", a), ("B", b), ("Y", y)), 90, 50, 40)
                     for g, a, b, y in (("g0", "x", "w", "t"), ("g1", "t", "w_again", "u")))
    ports = (Port("input:0", "x", "fp32", (4, 4)),), (Port("out/ü", "y", "fp32", (4, 4)),)
    groups_and_view = (*compiled, Compiled("g2", "view"))
    return Artifact("tiny", "toy", "a" * 64, "m1", "fp16", graph, *ports, groups_and_view, WEIGHTS, (("latency_ticks", 1234),))


SAMPLE = sample()
BYTES = pack(SAMPLE)


def same(a: Artifact, b: Artifact) -> bool:
    plain = [{n: (x.dtype, x.shape, x.tobytes()) for n, x in y.weights.items()} for y in (a, b)]
    return plain[0] == plain[1] and replace(a, weights={}) == replace(b, weights={})


def entries() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(BYTES)) as z:
        return {n: z.read(n) for n in z.namelist()}


def zipped(files: dict[str, bytes] | list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as z:
        warnings.simplefilter("ignore")  # zipfile warns of duplicates, which are wanted here
        for name, data in files.items() if isinstance(files, dict) else files:
            z.writestr(name, data)
    return out.getvalue()


def refused(path: Path, data: bytes, words: str) -> None:
    path.write_bytes(data)
    with pytest.raises(CheckError, match=words) as e:
        load(path)
    assert len(str(e.value).splitlines()) == 1 and str(path) in str(e.value)


def test_what_is_written_comes_back(tmp_path):
    write(tmp_path / "m.aoec", SAMPLE)
    back = load(tmp_path / "m.aoec")
    assert same(back, SAMPLE) and pack(back) == BYTES
    assert all(a.flags.writeable and a.flags.c_contiguous for a in back.weights.values())


def test_equal_artifacts_are_equal_bytes_in_any_process(request):
    code = f"import sys; sys.path.insert(0, {str(request.path.parent)!r})\n"
    code += "import test_artifact as t; print(t.hashlib.sha256(t.BYTES).hexdigest())"
    env = {"PYTHONHASHSEED": "77", "TZ": "Asia/Shanghai", "PATH": os.environ["PATH"]}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert out.stdout.strip() == hashlib.sha256(BYTES).hexdigest()
    turned = replace(SAMPLE, weights=dict(reversed(WEIGHTS.items())))
    assert pack(turned) == BYTES == pack(replace(SAMPLE, weights={n: np.asfortranarray(a).reshape(a.shape) for n, a in WEIGHTS.items()}))


def test_the_file_is_plain_and_equal_parts_are_stored_once():
    files, weights = entries(), {f"weights/{digest(a)}.npy" for a in WEIGHTS.values()}
    assert list(files) == ["graph.graph", "manifest.json", "programs/g0.prog", "traces/g0.sched", *sorted(weights)]
    assert len(weights) == 4 < len(WEIGHTS)
    manifest = json.loads(files["manifest.json"])
    assert manifest["times"] == "modelled"
    assert [g["program"] for g in manifest["groups"]] == ["programs/g0.prog", "programs/g0.prog", None]
    assert np.load(io.BytesIO(files[f"weights/{digest(W)}.npy"]), allow_pickle=False).tobytes() == W.tobytes()
    with zipfile.ZipFile(io.BytesIO(BYTES)) as z:
        assert {(i.date_time, i.compress_type) for i in z.infolist()} == {((1980, 1, 1, 0, 0, 0), zipfile.ZIP_STORED)}


SHAPED = replace(SAMPLE, graph=replace(SAMPLE.graph, tensors=tuple(t for t in SAMPLE.graph.tensors if t.name not in ("one", "w_flat"))),
                 weights={n: a for n, a in WEIGHTS.items() if n not in ("one", "w_flat")})  # as stored in the shapes that the graph gives
SHAPED = replace(SHAPED, graph=replace(SHAPED.graph, tensors=tuple(replace(t, shape=WEIGHTS[t.name].shape) if t.data else t
                                                                   for t in SHAPED.graph.tensors)))


class Refusing(dict):
    """Constants that nobody may look at."""

    def __getitem__(self, name):
        raise AssertionError(f"{name} is looked at")


def test_what_is_there_already_is_not_written_again(tmp_path):
    path = tmp_path / "m.aoec"
    write(path, SHAPED)
    before = path.stat().st_mtime_ns, path.stat().st_ino
    write(path, replace(SHAPED, weights=Refusing(SHAPED.weights)))
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before and path.read_bytes() == pack(SHAPED)
    write(path, replace(SHAPED, name="other"))
    assert path.read_bytes() == pack(replace(SHAPED, name="other"))


def test_a_constant_that_was_changed_with_its_checksum_is_not_taken_for_current(tmp_path):
    with zipfile.ZipFile(io.BytesIO(pack(SHAPED))) as z:
        files = {n: z.read(n) for n in z.namelist()}
    assert archive.pack(files) == pack(SHAPED)
    name = f"weights/{digest(W)}.npy"
    (tmp_path / "m.aoec").write_bytes(archive.pack({**files, name: files[name][:-1] + b"x"}))
    assert not current(tmp_path / "m.aoec", SHAPED)


GOOD = pack(SHAPED)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255), st.sampled_from(["flip", "drop", "insert", "cut"]))
def test_a_file_that_differs_in_any_byte_is_not_taken_for_current(at, change, how):
    bad = {"flip": GOOD[:at] + bytes([GOOD[at] ^ change]) + GOOD[at + 1:], "drop": GOOD[:at] + GOOD[at + 1:],
           "insert": GOOD[:at] + bytes([change]) + GOOD[at:], "cut": GOOD[:at]}[how]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.aoec"
        path.write_bytes(GOOD)
        assert current(path, SHAPED)
        path.write_bytes(bad)
        assert current(path, SHAPED) == (bad == GOOD)


def first_group(a: Artifact, **changes: object) -> Artifact:
    return replace(a, groups=(replace(a.groups[0], **changes), *a.groups[1:]))


@pytest.mark.parametrize(("change", "words"), [
    (lambda a: replace(a, groups=a.groups[1:]), "the graph's are g0, g1, g2"),
    (lambda a: replace(a, groups=(a.groups[1], a.groups[0], a.groups[2])), "the graph's are"),
    (lambda a: first_group(a, program=None), "group g0 is of kind cube and has no program"),
    (lambda a: first_group(a, bindings=(("A", "x"),)), "binds A and its program has A, B, Y"),
    (lambda a: first_group(a, bindings=(("A", "x"), ("B", "nowhere"), ("Y", "t"))), "bound to nowhere"),
    (lambda a: replace(a, target="Ascend910B3"), "has a program for toy"),
    (lambda a: replace(a, inputs=()), "its inputs are none and the graph's are x"),
    (lambda a: replace(a, weights={n: x for n, x in a.weights.items() if n != "b"}), "its constants b are not"),
    (lambda a: replace(a, weights={**a.weights, "b": B + 1}), "constant b is not the"),
    (lambda a: replace(a, weights={**a.weights, "more": B}), "its constants more are not"),
])
def test_contradictions_are_refused_before_anything_is_written(tmp_path, change, words):
    check(SAMPLE)
    with pytest.raises(CheckError, match=words):
        write(tmp_path / "m.aoec", change(SAMPLE))
    assert list(tmp_path.iterdir()) == []


def test_outputs_that_cannot_be_written(tmp_path):
    with pytest.raises(BackendError, match="cannot write"):
        write(tmp_path / "none" / "m.aoec", SAMPLE)
    (tmp_path / "m.aoec").mkdir()
    with pytest.raises(BackendError, match="cannot write"):
        write(tmp_path / "m.aoec", SAMPLE)
    assert [p.name for p in tmp_path.iterdir()] == ["m.aoec"]
    with pytest.raises(BackendError, match="cannot read"):
        load(tmp_path / "m.aoec")
    with pytest.raises(BackendError, match="no such file"):
        load(tmp_path / "other.aoec")


def test_hostile_archives(tmp_path):
    path, good = tmp_path / "m.aoec", entries()
    refused(path, b"", "the file is empty")
    refused(path, b"\x08\x07 onnx, not a zip", "no whole .aoec artifact")
    refused(path, zipped(good, zipfile.ZIP_DEFLATED), "compressed or encrypted")
    refused(path, zipped({**good, "graph.graph": b"\0" * 50_000_000}, zipfile.ZIP_DEFLATED), "compressed or encrypted")
    refused(path, zipped([*good.items(), ("graph.graph", good["graph.graph"])]), "'graph.graph' stands there twice")
    for name in ("../evil.prog", "/etc/passwd", "programs/../../x.prog", "programs\\x.prog", "traces/a/b.sched", "weights/GG.npy", "x.pkl"):
        refused(path, zipped({**good, name: b""}), "is none of an artifact's")
    refused(path, zipped({**good, "programs/extra.prog": b""}), "which its manifest does not name")
    for name in good:
        refused(path, zipped({n: d for n, d in good.items() if n != name}), f"has no {name}")


@pytest.mark.parametrize(("old", "new", "words"), [
    ('"format": 1', '"format": 3', "format is 3"), ('"format": 1', '"format": true', "format cannot be 'True'"),
    ('"times": "modelled"', '"times": "measured"', "times are not modelled"), ('"ticks": 50', '"ticks": -50', "ticks cannot be -50"),
    ('"ticks": 50', '"ticks": 5.5', "ticks cannot be '5.5'"), ('"ticks": 50', '"tocks": 50', "ticks is missing"),
    ('"name": "tiny"', '"name": "tiny", "more": 1', "'more' is not known"), ('"inputs": [', '"inputs": [7, ', "it is no object"),
    ('"programs/g0.prog"', '"../../g0.prog"', "program cannot be '../../g0.prog'"),
    ('"traces/g0.sched"', '"graph.graph"', "trace cannot be"),
    ('"bfloat16"', '"object"', "dtype cannot be 'object'"), ('"float16"', '"float32"', "no whole .aoec artifact"),
    ('"latency_ticks": 1234', '"latency_ticks": "1234"', "latency_ticks cannot be"),
    ('"format": 1', '"format": ' + "[" * 100_000, "no whole .aoec artifact"), ('"tensor": "x"', '"tensor": "z"', "contradicts itself"),
])
def test_hostile_manifests(tmp_path, old, new, words):
    good = entries()
    text = good["manifest.json"].decode()
    assert old in text
    refused(tmp_path / "m.aoec", zipped({**good, "manifest.json": text.replace(old, new, 1).encode()}), words)


def npy(header: str, data: bytes) -> bytes:
    padded = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode() + data


@pytest.mark.parametrize("data", [
    b"", b"\x93NUMPY", npy("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", b"\x80\x04N." * 6),
    npy("{'descr': '<f2', 'fortran_order': False, 'shape': (99999999999,), }", W.tobytes()),
    npy("{'descr': '<f2', 'fortran_order': False, 'shape': (-3, -4), }", W.tobytes()),
    npy("{'descr': '<f2', 'fortran_order': True, 'shape': (3, 4), }", W.tobytes()),
    npy("{'descr': '<f2', 'fortran_order': False, 'shape': (3, 4), 'x': __import__('os')}", W.tobytes()),
    npy("{'descr': '<f2', 'fortran_order': False, 'shape': (3, 4), }", W.tobytes() + b"\0"),
    npy("{" * 100, W.tobytes()), b"\x93NUMPY\x02\x00" + W.tobytes(),
])
def test_hostile_arrays(tmp_path, data):
    refused(tmp_path / "m.aoec", zipped({**entries(), f"weights/{digest(W)}.npy": data}), "no whole .aoec artifact")


def test_a_changed_weight_is_noticed_even_with_a_good_checksum(tmp_path):
    name = f"weights/{digest(B)}.npy"
    good = entries()[name]
    refused(tmp_path / "m.aoec", zipped({**entries(), name: good[:-1] + bytes([good[-1] ^ 1])}), "constant b is not the")


def test_edited_texts_are_parsed_like_any_other(tmp_path):
    text = entries()["programs/g0.prog"].decode()
    (tmp_path / "m.aoec").write_bytes(zipped({**entries(), "programs/g0.prog": text.replace("stream", "steam").encode()}))
    with pytest.raises(AoecError, match=r"m\.aoec:programs/g0\.prog:\d+:\d+: (.|\n)*\^"):
        load(tmp_path / "m.aoec")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files_load_as_they_were_or_are_refused(tmp_path_factory, data):
    damaged = bytearray(BYTES)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(BYTES) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[:data.draw(st.one_of(st.just(len(BYTES)), st.integers(0, len(BYTES))))]
    path = tmp_path_factory.getbasetemp() / "damaged.aoec"
    path.write_bytes(damaged)
    try:
        assert same(load(path), SAMPLE)
    except AoecError as e:
        assert str(path) in str(e)


@pytest.mark.parametrize("change", [{"shape": (4, 4)}, {"shape": (0, 4)}, {"shape": (3, 5)}, {"dtype": "fp32"}, {"dtype": "int8"}])
def test_constants_of_another_size_than_the_graph_says_are_refused(change):
    """Their bytes have the right hash: of the graph's text only the shape or dtype is another."""
    tensors = tuple(replace(t, **change) if t.name == "w" else t for t in SAMPLE.graph.tensors)
    with pytest.raises(CheckError, match=r"constant w is float16\[3, 4\], and the graph stores it as"):
        check(replace(SAMPLE, graph=replace(SAMPLE.graph, tensors=tensors)))
