"""Metadata of an ONNX file, read and put there as onnx itself would, without reading the model."""
from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.frontend.read import metadata
from aoec.frontend.read.metadata import value, write

KEY = "aoec.schedules"
texts = st.text(st.characters(codec="utf-8"), max_size=300)
SMALL = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> small (float[4] x) => (float[4] y) { y = Relu(x) }')


def with_entries(listed: list[tuple[str, str]]) -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.CopyFrom(SMALL)
    for key, text in listed:
        model.metadata_props.add(key=key, value=text)
    return model


@given(st.lists(st.tuples(st.sampled_from([KEY, "author", ""]), texts), max_size=4), texts, st.integers(1, 40))
def test_as_onnx_reads_and_writes_it(listed: list[tuple[str, str]], text: str, part_bytes: int) -> None:
    """The entry stands in place of those of its key; all else is as it was, whatever the model holds."""
    with pytest.MonkeyPatch.context() as patch:
        written: list[bytes] = []
        patch.setattr(metadata, "PART_BYTES", part_bytes)
        patch.setattr(metadata, "write_whole", lambda path, put: put(Lines(written)))
        model = with_entries(listed)
        assert value(model, KEY) == next((v for k, v in listed if k == KEY), "")
        write("out.onnx", model, KEY, text)
        found = onnx.ModelProto.FromString(b"".join(written))
        assert [(e.key, e.value) for e in found.metadata_props] == [*((k, v) for k, v in listed if k != KEY), (KEY, text)]
        del found.metadata_props[:]
        assert found == SMALL


class Lines:
    """What is written to a file."""

    def __init__(self, lines: list[bytes]) -> None:
        self.writelines = lines.extend


def test_a_file_in_place_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(with_entries([("author", "me"), (KEY, "old")]), path)
    write(path, path, KEY, "new")
    assert value(str(path), KEY) == "new" and [e.key for e in onnx.load(path).metadata_props] == ["author", KEY]


@given(st.binary(max_size=60), st.integers(0, 80))
def test_what_is_no_model_says_nothing(noise: bytes, cut: int) -> None:
    whole = with_entries([(KEY, "text")]).SerializeToString()
    for data in (noise, whole[:min(cut, len(whole) - 1)], noise + whole):
        assert value(Held(data), KEY) in ("", "text")  # type: ignore[arg-type]
    assert value(Held(whole), KEY) == "text" and value(Held(whole[:-1]), KEY) == ""  # type: ignore[arg-type]


class Held:
    """A model at hand that gives these bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def SerializeToString(self) -> bytes:
        return self.data


def test_a_file_that_is_not_there_or_empty_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    assert value(tmp_path / "none.onnx", KEY) == value(tmp_path / "empty.onnx", KEY) == ""
