"""ONNX's backend tests through aoec.backend: a sample each time, all of them where time is no matter."""
from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import nodes

from aoec.frontend import differences

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of ONNX, as it makes its data
STRIDE = 211  # a prime, so that families of tests are met at other members as they grow
REFUSALS = 40  # of all tests, at most
SHARE = 0.95  # of tests of the AI Core's operators that run wholly on it, at least


def test_a_sample_passes_or_is_refused() -> None:
    found = [nodes.outcome(t) for t in nodes.tests(stride=STRIDE)]
    assert len(found) > 8 and [nodes.line(o) for o in found if o.status in ("wrong", "fault")] == []
    assert sum(o.status == "refused" for o in found) <= 2


def test_the_program_counts_what_it_ran(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["nodes.py", "-k", "test_relu", "--list"])
    assert nodes.main() == 0
    out = capsys.readouterr().out
    assert "2 tests: 2 passed, 0 known, 0 refused, 0 wrong, 0 fault" in out and out.count("test_relu") == 2


@pytest.mark.slow
def test_all_pass_or_are_refused_as_the_document_says() -> None:
    found = [nodes.outcome(t) for t in nodes.tests()]
    assert [nodes.line(o) for o in found if o.status in ("wrong", "fault")] == []
    assert sum(o.status == "refused" for o in found) <= REFUSALS
    assert nodes.document(found) == nodes.DOCUMENT.read_text("utf-8")


def test_the_document_says_that_nearly_all_is_the_ai_cores() -> None:
    """Of the tests that contain an operator of the AI Core's list; none gives another value."""
    text = nodes.DOCUMENT.read_text("utf-8")
    assert "0 wrong, 0 fault" in text
    (whole, of), = re.findall(r"of the ([\d,]+) that contain an operator of the AI Core's list ([\d,]+) ", text)
    assert int(of.replace(",", "")) >= SHARE * int(whole.replace(",", ""))


def test_the_document_shows_the_table_of_differences() -> None:
    assert "\n".join(["", *differences.rows(), ""]) in nodes.DOCUMENT.read_text("utf-8")


def test_data_that_onnxruntime_does_not_give_either_are_known() -> None:
    """ONNX's reference takes scale times size for the size of what is resized; but what onnxruntime does not give is wrong."""
    (test,) = nodes.tests("test_resize_downsample_scales_linear_align_corners")
    assert nodes.outcome(test).status == "known"
    inputs, (wanted,) = test.data_sets[0]
    model = test.model
    assert nodes.known_difference(test, model, inputs, [wanted]) == ""


def test_where_a_model_ran_is_asked_after_the_run() -> None:
    """One whose shapes hang on an input is compiled only then: here for an axis, of doubles, which are the host's."""
    (test,) = nodes.tests("test_cumsum_1d_exclusive")
    assert nodes.outcome(test).host == ("host.CumSum",)


def test_what_a_wrong_value_or_type_becomes() -> None:
    (test,) = nodes.tests("test_relu")[:1]
    inputs, (wanted,) = test.data_sets[0]
    assert nodes.outcome(test).status == "passed"
    for bad in (wanted + 1, wanted.astype("float64"), wanted[:1]):
        test.data_sets[0] = (inputs, [bad])
        assert nodes.outcome(test).status == "wrong"
    test.data_sets[0] = (inputs, [wanted])


def test_the_document_is_of_this_run() -> None:
    found = [nodes.Outcome("a", frozenset(("Relu", "NonZero")), "passed", ("host.NonZero",)),
             nodes.Outcome("b", frozenset(("Relu",)), "passed"),
             nodes.Outcome("c", frozenset(("Relu",)), "refused", (), ("x is not known",))]
    text = nodes.document(found)
    assert "| Relu | AI Core | 3 | 2 | 1 | 1 |" in text and "- c (refused): x is not known" in text and "NonZero (1)" in text
    assert nodes.share(found, nodes.core_operators()) == (1, 3)
