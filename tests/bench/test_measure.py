"""The kernels to measure: the choice against conditioning by brute force, and the page and programs that are committed."""
from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from aoec import cli
from aoec.jobs.stages.stages import program_text
from aoec.target.vary import SPREAD
from bench import measure
from bench.cases.probes import OPERATORS, TARGET, micro
from bench.measure import BEGIN, END, FOLDER, PAGE, choose, goes_with, held_out_share, write

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / FOLDER).glob("*.prog"))
PAGE_TEXT = (ROOT / PAGE).read_text("utf-8")
TABLE, TEXT = PAGE_TEXT.partition(BEGIN)[2].partition(END)[0], " ".join(PAGE_TEXT.split())


def left_by_blocks(covariance: np.ndarray, places: list[int], wanted: list[int], noise: float) -> float:
    """The summed variance of the wanted when the places were seen, one after the other: each updates the whole covariance."""
    c = covariance.copy()
    for p in places:
        c -= np.outer(c[:, p], c[p, :]) / (c[p, p] + noise**2)
    return float(np.trace(c[np.ix_(wanted, wanted)]))


@pytest.mark.parametrize("seed", range(8))
def test_the_choice_is_that_of_brute_force(seed: int) -> None:
    """Six candidates of two times each: of all ordered pairs the one whose first is best alone and whose second is best beside it."""
    draw = np.random.default_rng(seed)
    a = draw.normal(size=(17, 17))
    covariance, candidates, wanted, noise = a @ a.T / 17, [[2 * i, 2 * i + 1] for i in range(6)], [12, 13, 14, 15, 16], 0.3
    pairs = {pair: [left_by_blocks(covariance, [p for i in pair[:n] for p in candidates[i]], wanted, noise) for n in (1, 2)]
             for pair in permutations(range(6), 2)}
    best = min(pairs, key=lambda pair: pairs[pair])
    taken = choose(covariance, candidates, wanted, noise, 2)
    assert [i for i, _ in taken] == list(best)
    assert [left for _, left in taken] == pytest.approx(pairs[best])


def test_a_candidate_that_says_the_same_again_is_worth_less() -> None:
    """Numbers u and v: the groups hang on both, u more; two candidates see u, one sees v with little beside it."""
    loads = np.array([[1.0, 0], [1.0, 0], [0, 0.5], [2.0, 0], [0, 1.0]])
    covariance = loads @ loads.T
    assert [i for i, _ in choose(covariance, [[0], [1], [2]], [3, 4], 0.02, 3)] == [0, 2, 1]
    assert len(choose(covariance, [[0], [1]], [3, 4], 0.02, 10)) == 2
    assert choose(covariance, [[1], [0]], [3, 4], 0.02, 1)[0][0] == 0  # of equals the first


def test_what_is_left_on_other_machines_is_what_theory_says() -> None:
    draw = np.random.default_rng(0)
    loads = draw.normal(size=(6, 4))
    first, others = (draw.normal(size=(4000, 4)) @ loads.T for _ in range(2))
    share = held_out_share((first[:, :2], first[:, 2:]), (others[:, :2], others[:, 2:]), 0.3)
    c = loads @ loads.T
    assert share == pytest.approx(left_by_blocks(c, [0, 1], [2, 3, 4, 5], 0.3) / np.trace(c[2:, 2:]), rel=0.1)


def test_the_numbers_that_a_time_goes_with() -> None:
    ratios = np.random.default_rng(1).normal(size=(500, 5))
    times = np.stack([ratios[:, 2] - 0.1 * ratios[:, 0], ratios[:, 2] - 2 * ratios[:, 4]], axis=1)
    found = goes_with(times, ratios, "abcde")
    assert [place for place, _ in found] == ["c", "e"] and found[0][1] > 0.9 and -0.95 < found[1][1] < -0.8


def test_all_candidates_are_legal() -> None:
    found = micro()
    assert len({p.name for p in found}) == len(found) > 50
    for probe in found:
        program_text(probe.text, probe.name, TARGET, {})
    operators = len(OPERATORS) + 1
    assert f"There are {len(found) + operators} candidates" in TEXT
    assert f" {len(found)} use one part of the chip each" in TEXT and f" {operators} are operators by their default schedules" in TEXT


def test_the_page_states_what_confidence_means() -> None:
    assert ", ".join(f"{100 * most:.0f} % for `{word}`" for word, most in SPREAD.items()) in TEXT
    assert f"an error of {100 * measure.NOISE:.0f} %" in TEXT


def test_there_are_ten_programs_and_the_table_names_them() -> None:
    rows = [line for line in TABLE.strip().splitlines() if line.startswith("| [")]
    names = [re.match(rf"\| \[([\w-]+\.prog)\]\(\.\./{FOLDER}/([\w-]+\.prog)\) \|", row) for row in rows]
    assert [m and m[1] for m in names] == [m and m[2] for m in names] == [p.name for p in FILES]
    assert [p.name[:3] for p in FILES] == [f"{n:02}-" for n in range(1, 11)]
    assert TABLE.count("modelled") >= 3 and re.search(r"model version [0-9a-f]{16}, 256 seeded machines, 62 groups", TABLE)
    left = [[float(cell.strip(" %")) for cell in row.split("|")[5:7]] for row in rows]
    assert [a for a, _ in left] == sorted((a for a, _ in left), reverse=True) and all(abs(a - b) < 5 for a, b in left)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_program_simulates(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And it is the candidate of its name, where that is text of ours."""
    for state in ("previous", "cleared"):
        assert cli.main(["simulate", str(path), "--state", state]) == 0
        assert "us" in capsys.readouterr().out
    texts = {p.name: f"# {p.about}\n{p.text}" for p in micro()}
    assert path.read_text("utf-8") == texts.get(path.stem[3:], path.read_text("utf-8"))


def test_the_page_and_the_programs_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The same bytes each time; programs of an older choice go, and what is around the table stays."""
    (tmp_path / PAGE).parent.mkdir()
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "01-older.prog").write_text("old")
    (tmp_path / PAGE).write_text(f"before\n{BEGIN}\nold\n{END}\nbehind\n", "utf-8")
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    made = []
    for _ in range(2):
        assert measure.main(["--seeds", "4", "--of", "3", "--pick", "2", "--among", "launch", "flags", "--write"]) == 0
        made.append({p.name: p.read_bytes() for p in (tmp_path / PAGE, *(tmp_path / FOLDER).iterdir())})
    assert made[0] == made[1] and len(made[0]) == 3 and "01-older.prog" not in made[0]
    text = (tmp_path / PAGE).read_text("utf-8")
    assert text.startswith(f"before\n{BEGIN}\n") and text.endswith(f"\n{END}\nbehind\n") and "\nold\n" not in text
    assert "modelled; left" in capsys.readouterr().out
    (tmp_path / PAGE).write_text("no marks")
    with pytest.raises(SystemExit, match="has no lines"):
        write([], "", tmp_path)
