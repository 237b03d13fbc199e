"""What tuning finds on well-known models, beside CANN's stock tiling and our default, and what it costs: a table, which the READMEs hold.

    python bench/quality.py [--models resnet50 ...] [--targets Ascend910B3 ...] [--trials 40] [--bank quality.db]
                            [--write README.md README.zh.md]

Each model of the zoo (seeded weights, fp16, batch 1) is tuned for each target, with `--trials` trials for each different group. Nothing
comes from the built-in bank. With --trials 0 nothing is searched. Times are modelled, of one inference from cold inputs and weights. There
are four of them: as CANN would run it without tuning (docs/stock.md), by our default schedules, by the tuned ones, and the bound that no
schedule can beat. Values are not checked here (bench/zoo.py does that). You can stop it and go on at any time. Results stay in the bank.
A finished row stays in a file beside it, with the CPU seconds of all the runs that it took.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aoec
from aoec.base.files.files import read_json, write_text
from aoec.jobs.version import model_version
from bench.networks import NETWORKS

MODELS = ("resnet50", "bert-base", "yolov5s", "gpt2", "mobilenet-v2", "vit-b16", "llama-1b-block")
TARGETS = ("Ascend910B3", "Ascend310P3")
BEGIN, END = "<!-- quality: made by bench/quality.py -->", "<!-- quality: end -->"
# of a table in English and in Chinese: its heads, and the line above it
HEADS = {
    "en": ("| model | target | stock µs | default µs | tuned µs | bound µs | against stock | against default | above bound | proven "
           "| trials | CPU s |",
           "{tool}, model version {model_version}: fp16, batch 1, {trials} trials for each different group, of small spaces all "
           "candidates; every time is modelled. *stock*: as CANN would run it without tuning, by its public rules, and by proxies where "
           "these are closed; rules and proxies cover at least {ruled} of its time ([docs/stock.md](docs/stock.md)). "
           "*proven*: the share of the time in groups whose "
           "schedule is proved the best of its space, or at the bound. Values of these models are held against onnxruntime in "
           "[docs/zoo.md](docs/zoo.md)."),
    "zh": ("| 模型 | 目标 | CANN 原始 µs | 默认 µs | 调优 µs | 下界 µs | 相比 CANN 原始 | 相比默认 | 高出下界 | 已证明 "
           "| 试验次数 | CPU 秒 |",
           "{tool},模型版本 {model_version}:fp16,batch 1,每个不同的组 {trials} 次试验(小空间则全部试完);所有时间均为建模值(modelled)。"
           "“CANN 原始”:按 CANN 公开的规则、不做调优时的时间;规则未公开处用相近规则代替(proxy),"
           "规则与代替规则至少覆盖其时间的 {ruled}([docs/stock.md](docs/stock.md))。"
           "“已证明”:调度已被证明为空间内最优或达到下界的组所占的时间份额。"),
}


@dataclass(frozen=True)
class Row:
    """One model on one target; times in modelled µs, shares are parts of one, `trials` asked for of each group and `spent` on all.
    `stock_us`, and the share of it that rules and proxies cover: None where the target has no public rules."""

    model: str
    target: str
    tool: str
    model_version: str
    trials: int
    default_us: float
    tuned_us: float
    bound_us: float
    proven: float
    spent: int
    cpu_seconds: float
    stock_us: float | None = None
    ruled: float | None = None

    def line(self) -> str:
        """Return the row of the table."""
        stock = "–" if self.stock_us is None else f"{self.stock_us:,.1f}"
        against = "–" if self.stock_us is None else change(self.stock_us, self.tuned_us)
        return (f"| {self.model} | {self.target} | {stock} | {self.default_us:,.1f} | {self.tuned_us:,.1f} | {self.bound_us:,.1f} "
                f"| {against} | {change(self.default_us, self.tuned_us)} | {100 * (self.tuned_us / self.bound_us - 1):.0f} % "
                f"| {100 * self.proven:.0f} % | {self.spent:,} | {self.cpu_seconds:,.0f} |")


def change(before: float, after: float) -> str:
    """Return the change of a time in per cent: -25.0 % is a quarter less. Return "–" where there was none."""
    return f"{100 * (after / before - 1):+.1f} %" if before else "–"


def proven(groups: Sequence[dict[str, Any]]) -> float:
    """Return the share of the AI Core's time, groups timed alone, in those whose schedule is proved."""
    times = [(g["count"] * g["tuned_us"], bool(g["proof"])) for g in groups if g["runs_on"] == "AI Core"]
    return sum(us for us, proof in times if proof) / sum(us for us, _ in times)


def tuned(name: str, target: str, trials: int, bank: Path) -> dict[str, Any]:
    """Return the report of a model tuned for a target."""
    with TemporaryDirectory() as folder:
        return aoec.compile(NETWORKS[name](1, 0).model, Path(folder) / "network.aoec", target=target, tune=trials > 0,
                            budget=max(trials, 1), bank=bank, base="none", verify=False, stock=True).report


def row_of(name: str, target: str, trials: int, report: dict[str, Any], cpu_seconds: float) -> Row:
    latency, spent, stock = report["latency"], report["trials"], report.get("stock")
    return Row(name, target, f"aoec {version('aoec')}", model_version(), trials, latency["default_us"], latency["tuned_us"],
               latency["bound_us"], proven(report["groups"]), spent, cpu_seconds,
               stock and stock["latency_us"], stock and stock["shares"]["rule"] + stock["shares"]["proxy"])


class Shelf:
    """Finished rows and the CPU seconds of unfinished ones, in a file that is written whole after each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        said = read_json(path) if path.is_file() else {}
        self.rows: dict[str, Row] = {key: Row(**row) for key, row in said.get("rows", {}).items()}
        self.seconds: dict[str, float] = said.get("seconds", {})

    def find(self, name: str, target: str, trials: int, bank: Path) -> Row:
        """Return the row, made now where it is not there for this version of the model."""
        key = f"{name} {target} {trials} {model_version()}"
        if key not in self.rows:
            started, report = cpu_seconds(), None
            try:
                report = tuned(name, target, trials, bank)
            finally:
                self.seconds[key] = self.seconds.get(key, 0.0) + cpu_seconds() - started
                if report is not None:
                    self.rows[key] = row_of(name, target, trials, report, self.seconds[key])
                write_text(self.path, json.dumps({"rows": {k: asdict(r) for k, r in self.rows.items()}, "seconds": self.seconds}, indent=1))
        return self.rows[key]


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def table(rows: Sequence[Row], language: str) -> str:
    """Return the lines between the marks: the caption, heads and rows."""
    head, words = HEADS[language]
    ruled = min((r.ruled for r in rows if r.ruled is not None), default=0.0)
    said = words.format(**{**asdict(rows[0]), "ruled": f"{100 * ruled:.0f} %"})
    return "\n".join([said, "", head, "|---" * (head.count("|") - 1) + "|", *[r.line() for r in rows]])


def put(rows: Sequence[Row], path: Path) -> None:
    """Write the table between the marks of a file, in the language that its name says. Raise SystemExit where it lacks the marks."""
    before, mark, rest = path.read_text("utf-8").partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not mark or not end:
        raise SystemExit(f"{path} has no lines {BEGIN} and {END}")
    write_text(path, f"{before}{BEGIN}\n{table(rows, 'zh' if path.name.endswith('.zh.md') else 'en')}\n{END}{behind}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--targets", nargs="+", default=TARGETS, metavar="NAME")
    parser.add_argument("--trials", type=int, default=40, metavar="N",
                        help="for each different group; 0 searches nothing (default: 40)")
    parser.add_argument("--bank", type=Path, default=Path("quality.db"), metavar="FILE", help="what is found stays there (quality.db)")
    parser.add_argument("--write", type=Path, nargs="+", default=[], metavar="FILE", help="put the table between the marks of these files")
    args = parser.parse_args(argv)
    shelf, rows = Shelf(args.bank.with_suffix(".json")), []
    for name in args.models:
        for target in args.targets:
            rows.append(shelf.find(name, target, args.trials, args.bank))
            print(rows[-1].line(), flush=True)
    for path in args.write:
        put(rows, path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
