"""The tables of docs/search.md: a row a space, a column a player, the counts of seeds, and what it all comes to."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from aoec.base.errors import AoecError
from aoec.base.files.files import write_text
from bench.spaces.case import MARKS
from bench.spaces.figures import Games, Size, cell, costs, figures_of, players_of, summary, words

BEGIN, END = "<!-- search: made by bench/search.py -->", "<!-- search: end -->"
MARK = 5  # percent, of the table


def put(path: Path, games: Games, sizes: Mapping[str, Size], mine: str, peers: Sequence[str]) -> None:
    """Write the tables between the marks of a file. Raise AoecError where it has no marks, or there are no games to report."""
    if not set(games) & set(sizes):
        raise AoecError(f"{path} is left as it is: no games of a space that is asked for (--spaces, --own)")
    before, mark, rest = path.read_text("utf-8").partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not mark or not end:
        raise AoecError(f"{path} has no lines {BEGIN} and {END}")
    write_text(path, f"{before}{BEGIN}\n{tables(games, sizes, mine, peers)}\n{END}{behind}")


def tables(games: Games, sizes: Mapping[str, Size], mine: str, peers: Sequence[str]) -> str:
    """Return the tables: measures to MARK by space and player, the number of seeds, the verdicts by mark, and CPU time."""
    known = {space: games[space] for space in games if space in sizes}
    players = players_of(known, mine, peers)
    said = words(known, mine, peers, MARK)
    out = [f"| space | legal | within {MARK} % | {' | '.join(named(p, known) for p in players)} | {mine} is |",
           "|---|---:|---:|" + "---|" * (len(players) + 1)]
    for space, played in known.items():
        figures, size = figures_of(played, MARK), sizes[space]
        cells = " | ".join(cell(figures.get(p)) for p in players)
        out.append(f"| {space} | {size.legal:,} | {size.near} | {cells} | {said.get(space, '')} |")
    out += ["", *[f"- {summary(words(known, mine, peers, mark), mark)}" for mark in MARKS]]
    return "\n".join([*out, "", costs(known, players)])


def named(player: str, games: Games) -> str:
    """Return a player, and how many games it played in a space: from the fewest to the most."""
    counts = [len(played[player]) for played in games.values() if played.get(player)]
    least, most = min(counts), max(counts)
    return f"{player}, {least}{f' to {most}' * (most > least)} seed{'s' * (most > 1)}"
