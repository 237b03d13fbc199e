"""How many measures a strategy needs: to come within 10, 5 and 1 % of the known optimum of spaces that were measured in full.

    python bench/search.py --spaces DIR [--own DIR] [--only SPACE,...] [--players NAME,...] [--seeds 25] [--budget 220]
        [--results results.json] [--json] [--write docs/search.md]

DIR of --spaces holds files NAME.csv.gz (format: docs/search.md). DIR of --own is where our own spaces are kept. They are timed when they
are not there yet. Players are our strategies and their peers (bench/spaces/players.py), by default the portfolio and every peer that is
installed (pip install '.[bench]'). A game is one search of a player. Games are played one after another. Those that --results holds are not
played again. Results are written there after each seed, and where the run is stopped, so you can go on at any time. Games of a space whose
file has changed since are played anew. Every count is of different configurations, failing ones too. --write puts the tables between the
marks of a document.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # CPU seconds of one core, whoever plays
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.base.errors import AoecError
from aoec.base.files.files import write_text
from bench.spaces.case import Case, Game, Over, read
from bench.spaces.document import put
from bench.spaces.figures import Size, table
from bench.spaces.own import OPERATORS, own
from bench.spaces.players import OURS, PEERS, player

MINE = "portfolio"
Results = dict[str, dict[str, list[dict[str, object]]]]  # space -> player -> games


def cases(args: argparse.Namespace) -> Iterator[Case]:
    """Yield the spaces that are asked for, files first. Raise AoecError where --only names none of them."""
    files = {f.name.removesuffix(".csv.gz"): f for f in sorted(args.spaces.glob("*.csv.gz"))} if args.spaces else {}
    names = [*files, *(OPERATORS if args.own else ())]
    only = [n for n in args.only.split(",") if n] or names
    unknown = [n for n in only if n not in names]
    if unknown:
        raise AoecError(f"--only {','.join(unknown)}: no such space; there are {', '.join(names)}")
    for name in only:
        yield read(files[name]) if name in files else own(name, args.own)


def played(case: Case, name: str, seed: int, budget: int) -> dict[str, object] | None:
    """Return the game of one player with one seed. Return None where its package is missing."""
    play, game = player(name), Game(case, budget)
    if play is None:
        return None
    started = time.process_time()
    with contextlib.suppress(Over):
        play(case, game, seed)
    return {"space": case.key, "seed": seed, "budget": budget, "reached": {str(k): v for k, v in game.reached.items()},
            "measures": len(game.seen), "proposals": game.proposals, "cpu_seconds": round(time.process_time() - started, 4)}


def play_all(args: argparse.Namespace, results: Results) -> dict[str, Size]:
    """Play what is missing in the results, seed by seed, so that an early end leaves as many seeds of each player as can be; the sizes of
    the spaces."""
    missing: set[str] = set()
    sizes = {}
    for case in cases(args):
        rows = results[case.name] = {p: [g for g in games if g.get("space") == case.key]
                                     for p, games in results.get(case.name, {}).items()}
        sizes[case.name] = Size(len(case.times_ms), case.within(5))
        for seed in range(args.seeds):
            with kept(args.results, results):
                play_seed(case, seed, args, rows, missing)
    return sizes


def play_seed(case: Case, seed: int, args: argparse.Namespace, rows: dict[str, list[dict[str, object]]], missing: set[str]) -> None:
    """Play a game of each player that the rows do not hold. Print a message once for each player without its package."""
    for name in args.players:
        games = rows.setdefault(name, [])
        if name in missing or any((g["seed"], g["budget"]) == (seed, args.budget) for g in games):
            continue
        if game := played(case, name, seed, args.budget):
            games.append(game)
            continue
        missing.add(name)
        print(f"{name} is skipped: its package is not installed (pip install '.[bench]')", file=sys.stderr)


@contextlib.contextmanager
def kept(path: Path | None, results: Results) -> Iterator[None]:
    """Write what new games there are at the end, also at an early one."""
    before = count(results)
    try:
        yield
    finally:
        if path and count(results) > before:
            write_text(str(path), json.dumps(results))


def count(results: Results) -> int:
    return sum(len(games) for rows in results.values() for games in rows.values())


def chosen(results: Results, args: argparse.Namespace) -> Results:
    """Return the games that count: of that budget, and of players that played any."""
    kept = {space: {p: [g for g in games if g["budget"] == args.budget] for p, games in rows.items()} for space, rows in results.items()}
    return {space: {p: games for p, games in rows.items() if games} for space, rows in kept.items()}


def names_of(text: str) -> list[str]:
    names = [n for n in text.split(",") if n]
    unknown = [n for n in names if n not in OURS and n not in PEERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no player {', '.join(unknown)}; there are {', '.join([*OURS, *PEERS])}")
    return names


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--spaces", type=Path, metavar="DIR")
    parser.add_argument("--own", type=Path, metavar="DIR", help="our own spaces too; they are kept there")
    parser.add_argument("--only", default="", metavar="SPACE,...")
    parser.add_argument("--players", type=names_of, default=[MINE, *PEERS], metavar="NAME,...")
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--budget", type=int, default=220, help="different measures of a game")
    parser.add_argument("--results", type=Path, metavar="FILE.json")
    parser.add_argument("--json", action="store_true", help="print the games and no table")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="put the tables of all games in the results between its marks")
    args = parser.parse_args(argv)
    results = json.loads(args.results.read_text("utf-8")) if args.results and args.results.exists() else {}
    try:
        sizes = play_all(args, results)
        games = chosen(results, args)
        if args.write:
            put(args.write, games, sizes, MINE, list(PEERS))
    except AoecError as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        where = f"in {args.results}; the same command goes on from there" if args.results else "lost: --results FILE.json would keep them"
        print(f"interrupted: {count(results)} games are {where}", file=sys.stderr)
        return 130
    print(json.dumps(games) if args.json else table(games, MINE, list(PEERS)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
