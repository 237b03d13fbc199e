"""The bench of strategies: its file format, what a game counts, its figures and verdicts, and a run that goes on where it stopped."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import bench.search as search
from aoec.base.errors import AoecError
from bench.spaces.case import Case, Game, Over, read, write
from bench.spaces.document import BEGIN, END, put
from bench.spaces.figures import Figure, Size, figure, verdict
from bench.spaces.own import thinned
from bench.spaces.players import OURS, PEERS, player

VALUES = np.array([(a, b, 7) for a in (1, 2, 4, 8) for b in (0, 1, 2, 3, 4) if a * b < 20])
TINY = Case("tiny", ("a", "b", "c"), VALUES, np.array([np.nan if a == b else 1.0 + abs(a - 4) + 0.04 * b for a, b, _ in VALUES]))


def test_a_space_is_read_as_it_was_written(tmp_path: Path) -> None:
    write(TINY, tmp_path / "tiny.csv.gz")
    back = read(tmp_path / "tiny.csv.gz")
    assert (back.name, back.names) == ("tiny", ("a", "b")) and np.array_equal(back.values, VALUES[:, :2])
    assert np.allclose(back.times_ms, TINY.times_ms, equal_nan=True) and np.isnan(back.times_ms).sum() == 3
    assert [back.within(m) for m in (10, 5, 1)] == [3, 2, 1]


def test_a_game_counts_different_measures_and_ends_at_the_lowest_mark() -> None:
    game, row = Game(TINY, 10), TINY.rows
    assert game.measure(row[1, 1, 7]) is None and game.measure(row[1, 1, 7]) is None and game.measure(row[4, 2, 7]) == 1.08
    assert (len(game.seen), game.reached, game.proposals) == (2, {10: 2}, 3)
    with pytest.raises(Over):
        game.measure(row[4, 0, 7])
    assert game.reached == {10: 2, 5: 3, 1: 3}
    with pytest.raises(Over):
        Game(TINY, 1).measure(row[1, 0, 7])


def test_figures_count_what_never_arrived_as_more_than_the_budget() -> None:
    games = [{"reached": {"5": n}, "budget": 20, "measures": 10, "cpu_seconds": 0.1} for n in (4, 6, 8)]
    games += [{"reached": {}, "budget": 20, "measures": 20, "cpu_seconds": 0.2}] * 2
    f = figure(games, 5)
    assert (f.median, f.success, f.seeds) == (8, 0.6, 5) and 4 <= f.low <= 8 <= f.high == 21 and f.ms_per_proposal == pytest.approx(10)


@pytest.mark.parametrize(("median", "low", "high", "word"), [
    (50, 40, 60, "best"), (60, 52, 70, "tied"), (60, 56, 70, "behind"), (80, 54, 90, "tied, 1.60 x the best")])
def test_verdicts(median: int, low: int, high: int, word: str) -> None:
    peers = {"a": Figure(50, 45, 55, 1, 9, 0), "b": Figure(90, 80, 99, 1, 9, 0)}
    assert verdict(Figure(median, low, high, 1, 9, 0), peers) == word


def test_a_run_goes_on_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(TINY, tmp_path / "tiny.csv.gz")
    common = ["--spaces", str(tmp_path), "--budget", "12", "--results", str(tmp_path / "r.json")]
    assert search.main([*common, "--seeds", "1", "--players", "random,genetic,portfolio"]) == 0
    kept = json.loads((tmp_path / "r.json").read_text())["tiny"]
    assert search.main([*common, "--seeds", "2", "--players", "portfolio,random"]) == 0
    more = json.loads((tmp_path / "r.json").read_text())["tiny"]
    assert {p: len(g) for p, g in more.items()} == {"random": 2, "genetic": 1, "portfolio": 2}
    assert all(more[p][0] == kept[p][0] for p in kept) and "| tiny |" in capsys.readouterr().out
    assert search.main([*common, "--only", "none"]) == 2 and "no such space; there are tiny" in capsys.readouterr().err


def test_games_of_a_space_that_has_changed_are_played_anew(tmp_path: Path) -> None:
    write(TINY, tmp_path / "tiny.csv.gz")
    command = ["--spaces", str(tmp_path), "--budget", "12", "--results", str(tmp_path / "r.json"), "--seeds", "2", "--players", "random"]
    assert search.main(command) == 0
    first = read(tmp_path / "tiny.csv.gz")
    write(Case("tiny", TINY.names, VALUES, TINY.times_ms[::-1].copy()), tmp_path / "tiny.csv.gz")
    assert search.main(command) == 0
    games = json.loads((tmp_path / "r.json").read_text())["tiny"]["random"]
    assert [g["seed"] for g in games] == [0, 1] and {g["space"] for g in games} == {read(tmp_path / "tiny.csv.gz").key} != {first.key}


def stopped(case: Case, game: Game, seed: int) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_keeps_the_games_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    write(TINY, tmp_path / "tiny.csv.gz")
    kept = tmp_path / "r.json"
    command = ["--spaces", str(tmp_path), "--budget", "12", "--results", str(kept), "--seeds", "1", "--players", "random,skopt"]
    with monkeypatch.context() as patch:
        patch.setitem(search.PEERS, "skopt", ("", stopped))  # type: ignore[arg-type]
        assert search.main(command) == 130
    assert "interrupted: 1 games are in" in capsys.readouterr().err
    assert {p: len(g) for p, g in json.loads(kept.read_text())["tiny"].items()} == {"random": 1, "skopt": 0}


def test_tables_stand_between_the_marks_of_a_document(tmp_path: Path) -> None:
    path = tmp_path / "search.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nbehind\n")
    games = {"s": {"portfolio": [game_of(4), game_of(6)], "random": [game_of(9)]}, "gone": {"random": [game_of(1)]}}
    put(path, games, {"s": Size(12_345, 7)}, "portfolio", ["random"])
    before, table, behind = path.read_text().partition(BEGIN)[0], path.read_text(), path.read_text().partition(END)[2]
    assert (before, behind) == ("before\n", "\nbehind\n") and "old" not in table and "gone" not in table
    assert "| space | legal | within 5 % | portfolio, 2 seeds | random, 1 seed | portfolio is |" in table
    assert "| s | 12,345 | 7 | 5 (4 to 6; 100 %) | 9 (9 to 9; 100 %) | best |" in table and "- 5 %: best or tied on 1 of 1 spaces" in table
    with pytest.raises(AoecError, match="no games"):
        put(path, games, {}, "portfolio", ["random"])
    path.write_text("plain")
    with pytest.raises(AoecError, match="has no lines"):
        put(path, games, {"s": Size(1, 1)}, "portfolio", ["random"])


def game_of(measures: int) -> dict[str, object]:
    return {"reached": {"10": measures, "5": measures}, "budget": 20, "measures": 20, "cpu_seconds": 0.1}


def test_every_player_has_another_name_and_a_missing_package_is_no_player(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not OURS.keys() & PEERS.keys() and player("random") is not None
    monkeypatch.setitem(search.PEERS, "absent", ("no_such_package_here", PEERS["random"][1]))  # type: ignore[arg-type]
    assert player("absent") is None


def test_a_thinned_grid_keeps_first_and_last_choices() -> None:
    grid = TINY.space.grids[0]
    few = thinned(grid, 6)
    assert [len(c) for c in few.choices] == [2, 3, 1] and few.choices[:2] == ((1, 8), (0, 2, 4))
