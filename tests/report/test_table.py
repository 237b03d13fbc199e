"""The closing table: widths, numbers, labels, JSON, terminals and outputs that cannot show everything."""
from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.jobs.compile.steps.closing_table import UNTUNED
from aoec.report.table import Held, Report, Row, Stock, StockRow, Times, as_dict, choose_rows, print_table, sentence, show_table

ROWS = (
    Row("g0", "conv2d 1x3x224x224 * 64x3x7x7 /2 + bias + relu", Times(31.2, 24.5, 21.0), 1, "cube"),
    Row("g1", "maxpool 1x64x112x112 3x3 /2", Times(18.22, 14.0, 9.91), 3, "vector", "vector", "space"),
    Row("g3", "matmul " + "1x2048x1000 " * 9, Times(123456.7, 100123.5, 11.2), 1, "MTE2", "cube", "bound", why="MTE2 96%"),
    Row("g4", "flatten", Times(0.0, 0.0, 0.0), 1, "", "view"),
    Row("g5", "host.NonZero", Times(), 2, "", "host"),
)
REPORT = Report("resnet50", "Ascend910B3", "fp16", ROWS, Times(812.4, 609.3, 507.75), Times(900.0, 720.0, 512.0), (1000.0, 1250.0),
                "inputs in HBM", 38000, {"searching": 41.26}, 4)
GOLDEN = """\
resnet50 on Ascend910B3, fp16: 812.4 → 609.3 µs (-25 %) against our default; modelled; 41 s

 group       what                                  ×  default    tuned  bound   gain        gap  bound by  runs on
 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 g0          conv2d 1x3x224x224 * 64x3x7x7 /2 + …  1    31.20    24.50  21.00  21.5%      16.7%  cube      AI Core
"""
STOCK = Stock("910B", 900.0, 1000.0, 1100.0, {"rule": 0.12, "proxy": 0.8, "fixed block": 0.0, "no stock rule": 0.08},
              (StockRow("g0", "conv2d 3x3 1x64", 2, 12.5, 9.0, "proxy", "Conv3DV2's rules", ("a smaller block",)),), 1.5)


def test_the_table_as_it_looks():
    assert show_table(REPORT, 115).startswith(GOLDEN)


@pytest.mark.parametrize("width", [80, 100, 110, 120, 200])
def test_no_line_is_too_long_and_no_number_is_cut(width):
    lines = show_table(REPORT, width).splitlines()
    assert max(map(len, lines)) <= width
    numbers = re.compile(r"100,124 +11\.20" + r" +18\.9%" * (width > 80) + r" +893,860%= +MTE2 96%" + r" +AI Core" * (width >= 100))
    assert any(numbers.search(line) for line in lines)
    at = lines.index("") + 1  # the sentence may take several lines
    numbers_from = lines[at].index("×")
    assert not any("…" in line[numbers_from:] for line in lines[at + 1:at + 11]) and any("…" in line for line in lines) == (width < 200)


@pytest.mark.parametrize("width, left_out", [(80, "runs on, gain"), (100, ""), (120, ""), (200, "")])
def test_columns_that_do_not_fit_are_named(width, left_out):
    text = show_table(REPORT, width)
    assert f"not shown in {width} columns: {left_out} (" in text if left_out else "not shown" not in text
    assert all(name in text.split("\n\n")[1].splitlines()[0] for name in {"bound by", "runs on", "gain"} - set(left_out.split(", ")))


def test_a_wide_terminal_shows_a_label_whole_and_a_short_table_is_not_stretched():
    said = "conv2d 1x3x224x224 * 64x3x7x7 /2 + bias + relu"
    assert said in show_table(REPORT, 200) and said not in show_table(REPORT, 100)
    short = replace(REPORT, rows=ROWS[3:4])
    assert max(map(len, show_table(short, 200).splitlines()[2:4])) < 110


def test_throughput_counts_images_and_says_so():
    lines = show_table(replace(REPORT, images=16)).splitlines()
    row = next(x for x in lines if " throughput " in x)
    assert "images a second" in row and "16,000" in row and "20,000" in row
    assert any("an inference takes 16 images" in x for x in lines)
    assert as_dict(replace(REPORT, images=16))["throughput_per_s"] == {"default": 1000.0, "tuned": 1250.0}


def test_a_pipe_is_as_wide_as_columns_says(monkeypatch):
    for asked, most in (("80", 80), ("200", 200), ("9", 80), ("9999", 200), ("x", 80), ("", 80)):
        monkeypatch.setenv("COLUMNS", asked)
        pipe = io.StringIO()
        print_table(REPORT, pipe)
        assert pipe.getvalue() == show_table(REPORT, most), asked


def test_gain_is_time_saved_and_gap_is_above_the_bound():
    lines = show_table(REPORT, 120).splitlines()
    assert next(x for x in lines if " latency " in x).split()[-5:] == ["812.4", "609.3", "507.8", "25.0%", "20.0%"]
    assert next(x for x in lines if "throughput " in x).split()[-5:] == ["1,000", "1,250", "–", "20.0%", "–"]
    assert Times(0.0, 0.0, 0.0).gain is None and Times().gap is None


def test_everything_says_what_it_is():
    text = show_table(REPORT, 120)
    assert "times modelled, in µs" in " ".join(text.split())
    for words in ("(-25 %) against our default; modelled; 41 s", "how much of the time",
                  "5 groups on the AI Core, 3 distinct, 4 found in the bank, 38,000 trials, 41.3 s.",
                  "* best of its space, proved", "= at the bound", "2 groups on the host",
                  "starts from inputs in HBM"):
        assert words in text
    untuned = show_table(replace(REPORT, tuned=False, hint=UNTUNED, rows=ROWS[:1], notes=("written to resnet50.aoec",)), 120)
    assert UNTUNED in untuned and "host" not in untuned and untuned.endswith("written to resnet50.aoec\n")


def test_views_are_one_row_and_all_of_them_in_json():
    views = (ROWS[3], *(replace(ROWS[3], name=f"v{n}", what="slice") for n in range(3)), replace(ROWS[3], name="w", what="slice", count=2))
    report = replace(REPORT, rows=(*ROWS[:3], *views))
    lines = [x for x in show_table(report, 120).splitlines() if x.endswith("view")]
    assert [x.split()[:5] for x in lines] == [["views", "slice", "5,", "flatten", "6"]]
    assert sum(g["runs_on"] == "view" for g in as_dict(report)["groups"]) == 5


def test_how_near_times_are_to_published_ones_stands_below_and_in_json():
    near = (("conv, norm", "nothing published for X"), ("matmul", "10 published rows, " * 9 + "the end"))
    assert "measurements: --all, or docs/fidelity.md\n" in show_table(replace(REPORT, near=near), 100)
    text = show_table(replace(REPORT, near=near), 100, every=True)
    lines = text.splitlines()
    at = lines.index("how near times are to published measurements (docs/fidelity.md):")
    assert lines[at + 1] == "  conv, norm  nothing published for X" and max(map(len, lines)) <= 100
    assert all(x.startswith(" " * 14) for x in lines[at + 3:]) and text.endswith("the end\n")  # goes on below its own column
    assert "times of conv, norm: nothing published for X" in as_dict(replace(REPORT, near=near))["notes"]


def test_names_are_printed_as_they_are():
    text = show_table(replace(REPORT, rows=(replace(ROWS[0], name="[bold]x[/]", what="a[0] :smile: \x1b[2J"),)), 120)
    assert "[bold]x[/]" in text and "a[0] :smile: ?[2J" in text


def test_json_carries_the_same_figures():
    data = json.loads(json.dumps(as_dict(REPORT)))
    assert data["times"] == "modelled" and [g["runs_on"] for g in data["groups"]] == ["AI Core", "AI Core", "AI Core", "view", "host"]
    assert data["groups"][1]["gap"] == pytest.approx(14.0 / 9.91 - 1) and data["groups"][4]["tuned_us"] is None
    assert data["latency"]["gain"] == pytest.approx(0.25) and data["throughput_per_s"] == {"default": 1000.0, "tuned": 1250.0}


def test_a_gain_that_few_machines_confirm_is_called_the_default():
    rows = (replace(ROWS[0], held=Held(32, 32, 0.9, True)), replace(ROWS[1], held=Held(32, 28, 1.034, False)), *ROWS[2:])
    report = replace(REPORT, rows=rows, held=Held(32, 31, 0.97, True))
    lines = show_table(report, 130).splitlines()
    assert lines[2].split()[-1] == "holds" and max(map(len, lines)) <= 130
    first, second = (next(x for x in lines if x.strip().startswith(g)).split() for g in ("g0", "g1"))
    assert first[-1] == "100%" and "21.5%" in first and second[-1] == "87%" and second[-7:-5] == ["≈", "default"]
    text = " ".join(" ".join(lines).split())
    assert "all groups together: 31 of 32" in text and "g1 takes 103.4% of its default's time" in text and "(1 group)" in text
    data = as_dict(report)
    assert data["groups"][1]["held"] == {"machines": 32, "faster": 28, "worst": 1.034, "confirmed": False}
    assert data["groups"][2]["held"] is None and data["held"]["faster"] == 31
    unsure = show_table(replace(report, held=Held(32, 3, 1.2, False)), 130)
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
    assert b" us (-25 %)" in raw.getvalue() and b"?" not in raw.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_the_stock_model_stands_in_the_sentence_and_its_groups_behind_all(width):
    report = replace(REPORT, stock=STOCK)
    text = " ".join(show_table(report, width).split())
    assert text.startswith("resnet50 on Ascend910B3, fp16: 900.0 → 609.3 µs (-32 %) against CANN's stock tiling (rules 12 %, proxies 80 %, "
                           "no rule 8 %), -25 % against our default; modelled; 41 s ")
    assert "no stock rule 8.0 % of that time; what has no rule takes our default" in text and "Conv3DV2" not in text
    every = show_table(report, width, every=True)
    assert max(map(len, every.splitlines())) <= width
    row = next(x for x in every.splitlines() if "proxy  " in x or "proxy Conv" in x)
    assert "12.50" in row and "9.00" in row and "Conv3DV2" in row
    said = as_dict(report)["stock"]
    assert (said["latency_us"], said["shares"]["proxy"], said["groups"][0]["differs"]) == (900.0, 0.8, ["a smaller block"])


def test_the_sentence_says_what_was_asked_for():
    stock = replace(REPORT, stock=STOCK, metric="throughput", images=16)
    assert "17,600 → 20,000 images/s (+14 %) against CANN's stock tiling" in sentence(stock)
    assert "+25 % against our default" in sentence(stock)
    same = replace(REPORT, latency=Times(609.3, 609.3, 500.0), seconds={})
    assert sentence(same) == "resnet50 on Ascend910B3, fp16: 609.3 µs, our default schedules; modelled"
    slower = replace(REPORT, stock=replace(STOCK, latency_us=600.0), seconds={"searching": 1.23})
    assert "600.0 → 609.3 µs (+1.5 %) against CANN's stock" in sentence(slower) and sentence(slower).endswith("; 1.2 s")
    assert sentence(replace(REPORT, gear="8")).startswith("resnet50, gear 8, on Ascend910B3, fp16:")


def test_of_many_rows_the_heaviest_and_those_with_a_gain_are_shown():
    rows = tuple(Row(f"g{i}", "add", Times(10.0 + i, 10.0 + i, 5.0)) for i in range(40))
    rows = (*rows[:3], replace(rows[3], times=Times(13.0, 11.0, 5.0)), *rows[4:])
    shown = choose_rows(rows)
    assert [r.name for r in shown] == ["g3", *(f"g{i}" for i in range(27, 40))]  # in their order
    lines = show_table(replace(REPORT, rows=rows)).splitlines()
    left = sum(10.0 + i for i in range(27) if i != 3)
    assert f"and 26 more rows of {left:.1f} µs (--all, --report and --json have them)" in lines
    assert sum(x.startswith(" g") for x in lines) == 15 and len(as_dict(replace(REPORT, rows=rows))["groups"]) == 40  # and the heads
    assert sum(x.startswith(" g") for x in show_table(replace(REPORT, rows=rows), every=True).splitlines()) == 41
    assert choose_rows(rows[:15]) == list(rows[:15])


@given(st.dictionaries(st.sampled_from(("start", "reading", "grouping", "searching", "layouts", "slices", "writing", "stock")),
                       st.floats(0, 1e4), min_size=2))
def test_each_part_of_the_work_is_printed_and_they_add_up_to_the_whole(took):
    report = replace(REPORT, seconds=took)
    lines = show_table(report, 80).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Seconds by this computer's clock: "))
    words = " ".join(lines[at:at + 4]).partition(": ")[2].partition(".  ")[0]
    said = {part: float(number.replace(",", "")) for part, number in re.findall(r"(\w+) ([\d,]+\.\d)", words)}
    whole = float(re.search(r"([\d,]+\.\d) s\.", " ".join(lines[:at])).group(1).replace(",", ""))
    assert said.keys() - {"rest"} == {part for part, seconds in took.items() if seconds >= 0.1}
    assert abs(sum(said.values()) - whole) <= 0.05 * (len(said) + 1) + 0.05 + 1e-6
    assert max(map(len, lines)) <= 80
    facts = as_dict(report)
    assert abs(sum(facts["seconds_by_part"].values()) - facts["seconds"]) <= 0.0005 * len(took) + 1e-6
    assert facts["seconds_by_part"].keys() == took.keys()
