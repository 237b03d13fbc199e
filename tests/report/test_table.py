"""The closing table: widths, numbers, labels, JSON, terminals and outputs that cannot show everything."""
from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest

from aoec.jobs.compile.steps.closing_table import UNTUNED
from aoec.report.table import Held, Report, Row, Times, as_dict, print_table, show_table

ROWS = (
    Row("g0", "conv2d 1x3x224x224 * 64x3x7x7 /2 + bias + relu", Times(31.2, 24.5, 21.0), 1, "cube"),
    Row("g1", "maxpool 1x64x112x112 3x3 /2", Times(18.22, 14.0, 9.91), 3, "vector", "vector", "space"),
    Row("g3", "matmul " + "1x2048x1000 " * 9, Times(123456.7, 100123.5, 11.2), 1, "MTE2", "cube", "bound"),
    Row("g4", "flatten", Times(0.0, 0.0, 0.0), 1, "", "view"),
    Row("g5", "host.NonZero", Times(), 2, "", "host"),
)
REPORT = Report("resnet50", "Ascend910B3", "fp16", ROWS, Times(812.4, 609.3, 507.75), Times(900.0, 720.0, 512.0), (1000.0, 1250.0),
                "inputs in HBM", 38000, 41.26, 4)
GOLDEN = """\
resnet50 on Ascend910B3, fp16; all times are modelled, in µs

 group       what                           ×     default       tuned   bound   gain        gap  bound by  runs on
 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 g0          conv2d 1x3x224x224 * 64x3x7x…  1       31.20       24.50   21.00  21.5%      16.7%  cube      AI Core
"""


def test_the_table_as_it_looks():
    assert show_table(REPORT, 115).startswith(GOLDEN)


@pytest.mark.parametrize("width", [80, 100, 110, 120, 200])
def test_no_line_is_too_long_and_no_number_is_cut(width):
    lines = show_table(REPORT, width).splitlines()
    assert max(map(len, lines)) <= width
    numbers = re.compile(r"100,123\.50 +11\.20 +18\.9% +893,860%=" + r" +MTE2" * (width > 80) + r" +AI Core" * (width > 100))
    assert any(numbers.search(line) for line in lines)
    numbers_from = lines[2].index("×")
    assert not any("…" in line[numbers_from:] for line in lines[3:13]) and any("…" in line for line in lines)


@pytest.mark.parametrize("width, left_out", [(80, "runs on, bound by"), (100, "runs on"), (120, ""), (200, "")])
def test_columns_that_do_not_fit_are_named(width, left_out):
    text = show_table(REPORT, width)
    assert f"not shown in {width} columns: {left_out} (" in text if left_out else "not shown" not in text
    assert all(name in text.splitlines()[2] for name in {"bound by", "runs on"} - set(left_out.split(", ")))


def test_a_wide_terminal_shows_a_label_whole_and_a_short_table_is_not_stretched():
    said = "conv2d 1x3x224x224 * 64x3x7x7 /2 + bias + relu"
    assert said in show_table(REPORT, 200) and said not in show_table(REPORT, 100)
    short = replace(REPORT, rows=ROWS[3:4])
    assert max(map(len, show_table(short, 200).splitlines()[2:4])) < 110


def test_throughput_counts_images_and_says_so():
    lines = show_table(replace(REPORT, images=16)).splitlines()
    row = next(x for x in lines if " throughput " in x)
    assert "images a second" in row and "16,000.00" in row and "20,000.00" in row
    assert any("an inference takes 16 images" in x for x in lines)
    assert as_dict(replace(REPORT, images=16))["throughput_per_s"] == {"default": 1000.0, "tuned": 1250.0}


def test_a_pipe_is_as_wide_as_columns_says(monkeypatch):
    for asked, most in (("80", 80), ("200", 200), ("9", 80), ("9999", 200), ("x", 120), ("", 120)):
        monkeypatch.setenv("COLUMNS", asked)
        pipe = io.StringIO()
        print_table(REPORT, pipe)
        assert pipe.getvalue() == show_table(REPORT, most), asked


def test_gain_is_time_saved_and_gap_is_above_the_bound():
    lines = show_table(REPORT).splitlines()
    assert next(x for x in lines if " latency " in x).split()[-5:] == ["812.40", "609.30", "507.75", "25.0%", "20.0%"]
    assert next(x for x in lines if "throughput " in x).split()[-5:] == ["1,000.00", "1,250.00", "–", "20.0%", "–"]
    assert Times(0.0, 0.0, 0.0).gain is None and Times().gap is None


def test_everything_says_what_it_is():
    text = show_table(REPORT)
    for words in ("all times are modelled", "5 groups on the AI Core, 3 distinct, 4 found in the bank, 38,000 trials, 41.3 s.",
                  "* proved the best in this model and space", "= at the bound", "2 groups on the host",
                  "starts from inputs in HBM"):
        assert words in text
    untuned = show_table(replace(REPORT, tuned=False, hint=UNTUNED, rows=ROWS[:1], notes=("written to resnet50.aoec",)))
    assert UNTUNED in untuned and "host" not in untuned and untuned.endswith("written to resnet50.aoec\n")


def test_views_are_one_row_and_all_of_them_in_json():
    views = (ROWS[3], *(replace(ROWS[3], name=f"v{n}", what="slice") for n in range(3)), replace(ROWS[3], name="w", what="slice", count=2))
    report = replace(REPORT, rows=(*ROWS[:3], *views))
    lines = [x for x in show_table(report).splitlines() if x.endswith("view")]
    assert [x.split()[:5] for x in lines] == [["views", "slice", "5,", "flatten", "6"]]
    assert sum(g["runs_on"] == "view" for g in as_dict(report)["groups"]) == 5


def test_how_near_times_are_to_published_ones_stands_below_and_in_json():
    near = (("conv, norm", "nothing published for X"), ("matmul", "10 published rows, " * 9 + "the end"))
    text = show_table(replace(REPORT, near=near), 100)
    lines = text.splitlines()
    at = lines.index("how near times are to published measurements (docs/fidelity.md):")
    assert lines[at + 1] == "  conv, norm  nothing published for X" and max(map(len, lines)) <= 100
    assert all(x.startswith(" " * 14) for x in lines[at + 3:]) and text.endswith("the end\n")  # goes on below its own column
    assert "times of conv, norm: nothing published for X" in as_dict(replace(REPORT, near=near))["notes"]


def test_names_are_printed_as_they_are():
    text = show_table(replace(REPORT, rows=(replace(ROWS[0], name="[bold]x[/]", what="a[0] :smile: \x1b[2J"),)))
    assert "[bold]x[/]" in text and "a[0] :smile: ?[2J" in text


def test_json_carries_the_same_figures():
    data = json.loads(json.dumps(as_dict(REPORT)))
    assert data["times"] == "modelled" and [g["runs_on"] for g in data["groups"]] == ["AI Core", "AI Core", "AI Core", "view", "host"]
    assert data["groups"][1]["gap"] == pytest.approx(14.0 / 9.91 - 1) and data["groups"][4]["tuned_us"] is None
    assert data["latency"]["gain"] == pytest.approx(0.25) and data["throughput_per_s"] == {"default": 1000.0, "tuned": 1250.0}


def test_a_gain_that_few_machines_confirm_is_called_the_default():
    rows = (replace(ROWS[0], held=Held(32, 32, 0.9, True)), replace(ROWS[1], held=Held(32, 28, 1.034, False)), *ROWS[2:])
    report = replace(REPORT, rows=rows, held=Held(32, 31, 0.97, True))
    lines = show_table(report).splitlines()
    assert lines[2].split()[-1] == "holds" and max(map(len, lines)) <= 120
    first, second = (next(x for x in lines if x.strip().startswith(g)).split() for g in ("g0", "g1"))
    assert first[-1] == "100%" and "21.5%" in first and second[-1] == "87%" and second[-7:-5] == ["≈", "default"]
    text = " ".join(" ".join(lines).split())
    assert "all groups together: 31 of 32" in text and "g1 takes 103.4% of its default's time" in text and "(1 group)" in text
    data = as_dict(report)
    assert data["groups"][1]["held"] == {"machines": 32, "faster": 28, "worst": 1.034, "confirmed": False}
    assert data["groups"][2]["held"] is None and data["held"]["faster"] == 31
    unsure = show_table(replace(report, held=Held(32, 3, 1.2, False)))
    assert next(x for x in unsure.splitlines() if " latency " in x).split()[-3:] == ["≈", "default", "20.0%"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_on_a_terminal_only(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    terminal, pipe = Terminal(), io.StringIO()
    print_table(REPORT, terminal)
    print_table(REPORT, pipe)
    assert "\x1b[" in terminal.getvalue() and "\x1b[" not in pipe.getvalue()
    bare = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
    assert [x.rstrip() for x in bare.splitlines()] == pipe.getvalue().splitlines()


def test_an_ascii_output_gets_ascii():
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    print_table(REPORT, out)
    out.flush()
    assert b" us\n" in raw.getvalue() and b"?" not in raw.getvalue()
