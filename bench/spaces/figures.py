"""Figures of games: medians with intervals, who is best or tied with the best, and the table."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.spaces.case import MARKS

DRAWS = 2000  # bootstrap samples
WORST = 1.3  # times the best peer's median


@dataclass(frozen=True)
class Size:
    """Legal configurations of a space, and how many of them lie within 5 % of the best."""

    legal: int
    near: int


@dataclass(frozen=True)
class Figure:
    """Measures until a mark: `median` of all seeds and its 95 % interval by bootstrap; games that never got there count as budget + 1."""

    median: float
    low: float
    high: float
    success: float  # share of seeds
    seeds: int
    ms_per_proposal: float  # CPU

    def meets(self, other: Figure) -> bool:
        """Return whether the intervals overlap."""
        return self.low <= other.high and other.low <= self.high


def figure(games: Sequence[Mapping[str, object]], mark: int) -> Figure:
    """Return the figure of the games that one player played in one space."""
    counts = np.array([g["reached"].get(str(mark), g["budget"] + 1) for g in games])  # type: ignore[attr-defined,operator]
    drawn = np.random.RandomState(0).randint(len(counts), size=(DRAWS, len(counts)))
    low, high = np.quantile(np.median(counts[drawn], axis=1), (0.025, 0.975))
    reached = np.array([str(mark) in g["reached"] for g in games])  # type: ignore[operator]
    cpu, proposals = (sum(g[k] for g in games) for k in ("cpu_seconds", "measures"))  # type: ignore[misc]
    return Figure(float(np.median(counts)), float(low), float(high), float(reached.mean()), len(games), 1e3 * cpu / max(proposals, 1))


def verdict(mine: Figure, peers: Mapping[str, Figure]) -> str:
    """Return best, tied, behind or far behind (more than WORST times the best peer's median)."""
    best = min(peers.values(), key=lambda f: f.median)
    if mine.median <= best.median:
        return "best"
    far = mine.median > WORST * best.median
    return ("tied" if mine.meets(best) else "behind") + (f", {mine.median / best.median:.2f} x the best" if far else "")


Games = Mapping[str, Mapping[str, Sequence[Mapping[str, object]]]]  # space -> player -> games


def figures_of(games: Mapping[str, Sequence[Mapping[str, object]]], mark: int) -> dict[str, Figure]:
    return {player: figure(played, mark) for player, played in games.items() if played}


def words(games: Games, mine: str, peers: Sequence[str], mark: int) -> dict[str, str]:
    """Return the verdict on `mine` in each space that it and a peer played in."""
    out = {}
    for space, played in games.items():
        figures = figures_of(played, mark)
        rivals = {p: figures[p] for p in peers if p in figures}
        if mine in figures and rivals:
            out[space] = verdict(figures[mine], rivals)
    return out


def table(games: Games, mine: str, peers: Sequence[str]) -> str:
    """Return a Markdown table for each mark, with its summary below it, and at the end the costs. A table has a row for each space, a
    column for each player, and the verdict on `mine`."""
    players = players_of(games, mine, peers)
    out = []
    for mark in MARKS:
        said = words(games, mine, peers, mark)
        out += [f"Measures to {mark} %: median, 95 % interval, share of seeds that got there", "",
                f"| space | {' | '.join(players)} | {mine} is |", "|---|" + "---|" * (len(players) + 1)]
        for space, played in games.items():
            figures = figures_of(played, mark)
            out.append(f"| {space} | {' | '.join(cell(figures.get(p)) for p in players)} | {said.get(space, '')} |")
        out += ["", summary(said, mark), ""]
    return "\n".join([*out, costs(games, players)])


def players_of(games: Games, mine: str, peers: Sequence[str]) -> list[str]:
    """Return all who played: `mine`, others of ours, peers."""
    players = list(dict.fromkeys(p for played in games.values() for p, each in played.items() if each))
    return sorted(players, key=lambda p: (p != mine, p in peers))


def cell(f: Figure | None) -> str:
    return "" if f is None else f"{f.median:.0f} ({f.low:.0f} to {f.high:.0f}; {100 * f.success:.0f} %)"


def summary(said: Mapping[str, str], mark: int) -> str:
    """Return a sentence: on how many spaces the verdict is best or tied, and on how many it is far behind."""
    good = sum(w.startswith(("best", "tied")) for w in said.values())
    far = sum(" x " in w for w in said.values())
    return f"{mark} %: best or tied on {good} of {len(said)} spaces; more than {WORST} x the best peer's median on {far}"


def costs(games: Games, players: Sequence[str]) -> str:
    """Return CPU milliseconds for each measure, over all games of each player, and of the space where that is most."""
    out = ["CPU ms a measure, mean over spaces (most)", ""]
    for p in players:
        each = [figure(played[p], MARKS[0]).ms_per_proposal for played in games.values() if played.get(p)]
        out.append(f"- {p}: {np.mean(each):.2f} ({max(each):.2f})")
    return "\n".join(out)
