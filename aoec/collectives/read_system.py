"""Reads the TOML file of a system, checked: every key is known, every number has its bounds, and a refusal says file and place.

A file has either `[ranks.N.COLLECTIVE]` tables, for one or more counts of ranks, or `[[level]]` tables, from which the formulas of
`topology.py` make all collectives. docs/collectives.md says each key.
"""
from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aoec.base.errors import CheckError
from aoec.base.text import nearest
from aoec.collectives.costs import COLLECTIVES, Statement, System
from aoec.collectives.curve import Curve, join_pieces, polynomial, through
from aoec.collectives.topology import STEPS, Level, curves_of, ranks_of

CONFIDENCE = ("official", "measured", "inferred", "estimate")  # best first, as in machine files
TOP = ("title", "about", "source", "unit_bytes", "contention", "ranks", "level", "notes")
MAX_RANKS, MAX_LEVELS, MAX_PIECES, MAX_POINTS = 1 << 20, 4, 1000, 10_000
MAX_NUMBER = 1e15  # of anything; no µs and no byte of a real table comes near


def ranks_in(text: str, source: str) -> list[int]:
    """Return the counts of ranks that a file is for, ascending."""
    raw = _parse(text, source)
    if "level" in raw:
        return [ranks_of(_levels(raw, source)[0])]
    return sorted(_counts(raw, source))


def read_system(text: str, source: str, ranks: int | None, name: str) -> System:
    """Return what a file says of a count of ranks; None: the only one it is for. `name`: how the system is called in messages."""
    raw = _parse(text, source)
    _check_keys(raw, TOP, "", source)
    title = _words(raw, "title", "", source)
    notes = tuple(_text(n, f"notes[{i}]", source) for i, n in enumerate(_list(raw.get("notes", []), "notes", source)))
    if "about" in raw:
        notes = (_words(raw, "about", "", source), *notes)
    of = _text(raw.get("source", "stated in the file"), "source", source)
    contention, contention_source = 1.0, "unknown; taken as 1.0"
    if "contention" in raw:
        contention, where, sure = _value(raw["contention"], "contention", source, 1.0, 100.0)
        contention_source = f"{where} ({sure})"
    if ("level" in raw) == ("ranks" in raw):
        raise CheckError("a system has either [ranks.N.all_reduce] tables or [[level]] tables", source=source)
    if "level" in raw:
        levels, statements = _levels(raw, source)
        if ranks not in (None, ranks_of(levels)):
            raise CheckError(f"{name} has {ranks_of(levels)} ranks, not {ranks}", source=source)
        return System(name, title, ranks_of(levels), curves_of(levels), statements, contention, contention_source, notes, of)
    counts = _counts(raw, source)
    if ranks is None and len(counts) > 1:
        several = ", ".join(f"{source}:{n}" for n in sorted(counts))
        raise CheckError(f"it is for several counts of ranks; name one: {several}", source=source)
    count = next(iter(counts)) if ranks is None else ranks
    if count not in counts:
        raise CheckError(f"it says nothing of {count} ranks, only of {', '.join(map(str, sorted(counts)))}", source=source)
    unit = _number(raw.get("unit_bytes", 1), "unit_bytes", source, 1)
    curves, statements = _collectives(counts[count], count, unit, source)
    return System(name, title, count, curves, statements, contention, contention_source, notes, of)


# ---------------------------------------------------------------- tables of costs

def _collectives(raw: Mapping[str, Any], ranks: int, unit: float, source: str) -> tuple[dict[str, Curve], tuple[Statement, ...]]:
    """Return the curves of `[ranks.N]` and the notes on them. Curves that are made from others come last. One made from itself is
    refused."""
    place = f"ranks.{ranks}"
    _check_keys(raw, COLLECTIVES, place, source)
    if not raw:
        raise CheckError(f"{place}: says no collective; known: {', '.join(COLLECTIVES)}", source=source)
    made: dict[str, Curve] = {}
    statements: list[Statement] = []
    waiting = {name: _table(entry, f"{place}.{name}", source) for name, entry in raw.items()}
    while waiting:
        ready = [name for name, entry in waiting.items() if all(n in made for n in _needs(entry, f"{place}.{name}", source))]
        if not ready:
            name, entry = next(iter(waiting.items()))
            lacks = ", ".join(n for n in _needs(entry, f"{place}.{name}", source) if n not in made)
            raise CheckError(f"{place}.{name}: is made from {lacks}, which the file does not say by itself", source=source)
        for name in ready:
            made[name], said = _curve(waiting.pop(name), f"{place}.{name}", name, ranks, unit, made, source)
            statements += said
            us, at = made[name].least()
            if us < 0:
                raise CheckError(f"{place}.{name}: the cost falls below zero: {us:.3g} us at {at:,.0f} bytes", source=source)
    order = {name: i for i, name in enumerate(COLLECTIVES)}
    return made, tuple(sorted(statements, key=lambda s: order[s.collective]))


def _needs(entry: Mapping[str, Any], place: str, source: str) -> list[str]:
    """Return the collectives that a table is made from."""
    if "sum_of" in entry:
        found = [_text(n, f"{place}.sum_of", source) for n in _list(entry["sum_of"], f"{place}.sum_of", source)]
    elif "share_of" in entry:
        found = [_text(entry["share_of"], f"{place}.share_of", source)]
    else:
        return []
    for n in found:
        if n not in COLLECTIVES:
            raise CheckError(f"{place}: {n} is no collective{nearest(n, COLLECTIVES)}", source=source)
    if not found:
        raise CheckError(f"{place}.sum_of: names no collective", source=source)
    return found


def _curve(entry: Mapping[str, Any], place: str, name: str, ranks: int, unit: float, made: Mapping[str, Curve],
           source: str) -> tuple[Curve, list[Statement]]:
    kinds = [k for k in ("pieces", "sum_of", "share_of") if k in entry]
    if len(kinds) != 1:
        raise CheckError(f"{place}: give one of pieces, sum_of and share_of", source=source)
    if kinds[0] == "pieces":
        return _pieces(entry, place, name, ranks, unit, source)
    needs = _needs(entry, place, source)
    where, sure = _origin(entry, place, source)
    if kinds[0] == "sum_of":
        _check_keys(entry, ("sum_of", "source", "confidence"), place, source)
        curve = made[needs[0]]
        for n in needs[1:]:
            curve = curve.plus(made[n])
        return curve, [Statement(name, f"all sizes: the sum of {' and '.join(needs)}", where, sure)]
    _check_keys(entry, ("share_of", "share", "source", "confidence"), place, source)
    share = _number(entry.get("share"), f"{place}.share", source, 0, 1000)
    return made[needs[0]].scale(us=share), [Statement(name, f"all sizes: {share:g} of {needs[0]}", where, sure)]


def _pieces(entry: Mapping[str, Any], place: str, name: str, ranks: int, unit: float, source: str) -> tuple[Curve, list[Statement]]:
    """Return the curve of pieces behind each other. `size_of = "shard"`: their sizes are those of a rank's shard."""
    _check_keys(entry, ("pieces", "size_of"), place, source)
    of = _text(entry.get("size_of", "tensor"), f"{place}.size_of", source)
    if of not in ("tensor", "shard"):
        raise CheckError(f"{place}.size_of: is tensor or shard, not {of}", source=source)
    listed = _list(entry["pieces"], f"{place}.pieces", source)
    if not 0 < len(listed) <= MAX_PIECES:
        raise CheckError(f"{place}.pieces: has {len(listed):,} pieces; give 1 to {MAX_PIECES:,}", source=source)
    pieces: list[tuple[float, Curve]] = []
    statements = []
    low = 0.0
    for number, piece in enumerate(listed):
        here = f"{place}.pieces[{number}]"
        _check_keys(_table(piece, here, source), ("below_bytes", "us", "points", "source", "confidence"), here, source)
        is_last = number == len(listed) - 1
        if ("below_bytes" in piece) == is_last:
            raise CheckError(f"{here}: {'the last piece has no' if is_last else 'lacks'} below_bytes, the size where the next piece begins",
                             source=source)
        high = math.inf if is_last else _number(piece["below_bytes"], f"{here}.below_bytes", source, 1)
        if high <= low:
            raise CheckError(f"{here}.below_bytes: {high:,.0f} is not above {low:,.0f}, where the piece begins", source=source)
        if ("us" in piece) == ("points" in piece):
            raise CheckError(f"{here}: give us, the factors of a polynomial, or points, a table", source=source)
        curve = polynomial(_terms(piece["us"], f"{here}.us", source), unit) if "us" in piece else \
            through(_points(piece["points"], f"{here}.points", source))
        where, sure = _origin(piece, here, source)
        pieces.append((high, curve))
        statements.append(Statement(name, _range_words(low, high, of, ranks), where, sure))
        low = high
    return join_pieces(pieces).scale(size=1 / ranks if of == "shard" else 1.0), statements


def _range_words(low: float, high: float, of: str, ranks: int) -> str:
    rank = f" a rank of {ranks}" if of == "shard" else ""
    if high == math.inf:
        return f"{f'from {low:,.0f} bytes' if low else 'all sizes'}{rank}"
    return f"{f'from {low:,.0f} ' if low else ''}below {high:,.0f} bytes{rank}"


def _terms(raw: Any, place: str, source: str) -> list[float]:
    listed = _list(raw, place, source)
    if not 1 <= len(listed) <= 3:
        raise CheckError(f"{place}: give the factors of 1, x and x*x (one to three numbers)", source=source)
    return [_number(x, f"{place}[{i}]", source, -MAX_NUMBER) for i, x in enumerate(listed)]


def _points(raw: Any, place: str, source: str) -> list[tuple[float, float]]:
    listed = _list(raw, place, source)
    if not 1 <= len(listed) <= MAX_POINTS:
        raise CheckError(f"{place}: has {len(listed):,} points; give 1 to {MAX_POINTS:,}", source=source)
    points: list[tuple[float, float]] = []
    for i, point in enumerate(listed):
        here = f"{place}[{i}]"
        if len(_list(point, here, source)) != 2:
            raise CheckError(f"{here}: a point is [bytes, us]", source=source)
        points.append((_number(point[0], here, source, 1), _number(point[1], here, source)))
        check_order(points, lambda words, here=here: CheckError(f"{here}: {words}", source=source))  # type: ignore[misc]
    return points


def check_order(points: Sequence[tuple[float, float]], error: Callable[[str], Exception]) -> None:
    """Raise `error` where the last point is smaller than the one in front of it, or the third one of a size."""
    size = points[-1][0]
    if len(points) > 1 and size < points[-2][0]:
        raise error(f"{size:,.0f} bytes stand behind {points[-2][0]:,.0f}; sizes of a table ascend")
    if len(points) > 2 and size == points[-3][0]:
        raise error(f"{size:,.0f} bytes stand three times; two points of a size are a jump")


# ---------------------------------------------------------------- levels

def _levels(raw: Mapping[str, Any], source: str) -> tuple[list[Level], tuple[Statement, ...]]:
    """Return the levels, the innermost first, and the notes on their numbers."""
    listed = _list(raw["level"], "level", source)
    if not 1 <= len(listed) <= MAX_LEVELS:
        raise CheckError(f"level: has {len(listed)} levels; give 1 to {MAX_LEVELS}, the innermost first", source=source)
    levels, statements = [], []
    keys = ("name", "ranks", "algorithm", "latency_us", "gb_per_s", "reduce_gb_per_s", "fixed_us", "source", "confidence")
    for i, entry in enumerate(listed):
        place = f"level[{i}]"
        _check_keys(_table(entry, place, source), keys, place, source)
        name, algorithm = _words(entry, "name", place, source), _words(entry, "algorithm", place, source)
        if algorithm not in STEPS:
            raise CheckError(f"{place}.algorithm: {algorithm} is unknown{nearest(algorithm, STEPS)}", source=source)
        ranks = _number(entry.get("ranks"), f"{place}.ranks", source, 2, MAX_RANKS)
        if ranks != int(ranks):
            raise CheckError(f"{place}.ranks: is a whole number, not {ranks:g}", source=source)
        numbers = {"reduce_gb_per_s": math.inf, "fixed_us": 0.0}
        _origin(entry, place, source)
        for key in ("latency_us", "gb_per_s", "reduce_gb_per_s", "fixed_us"):
            if key in entry or key not in numbers:
                numbers[key], where, sure = _value(entry.get(key), f"{place}.{key}", source, 1e-6 if "gb_per_s" in key else 0.0,
                                                    beside=entry)
                statements.append(Statement("all", f"{name}: {key} {numbers[key]:g}, {int(ranks)} ranks, {algorithm}", where, sure))
        levels.append(Level(name, int(ranks), algorithm, **numbers))
    if ranks_of(levels) > MAX_RANKS:
        raise CheckError(f"level: {ranks_of(levels):,} ranks in all; at most {MAX_RANKS:,} are read", source=source)
    return levels, tuple(statements)


# ---------------------------------------------------------------- single values

def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as e:  # numbers of more than 4,300 digits too
        raise CheckError(f"not TOML: {str(e)[:200]}", source=source) from None


def _counts(raw: Mapping[str, Any], source: str) -> dict[int, dict[str, Any]]:
    """Return the `[ranks.N]` tables by N."""
    counts: dict[int, dict[str, Any]] = {}
    for key, entry in _table(raw.get("ranks"), "ranks", source).items():
        if not (key.isascii() and key.isdigit() and len(key) < 8 and 2 <= int(key) <= MAX_RANKS):
            raise CheckError(f"ranks.{key}: a count of ranks is a whole number from 2 to {MAX_RANKS:,}", source=source)
        counts[int(key)] = _table(entry, f"ranks.{key}", source)
    if not counts:
        raise CheckError("ranks: has no table such as [ranks.8.all_reduce]", source=source)
    return counts


def _check_keys(entry: Mapping[str, Any], keys: Sequence[str], place: str, source: str) -> None:
    for key in entry:
        if key not in keys:
            raise CheckError(f"{place}{'.' * bool(place)}{key}: unknown key{nearest(key, keys)}", source=source)


def _value(raw: Any, place: str, source: str, least: float = 0.0, most: float = MAX_NUMBER,
            beside: Mapping[str, Any] | None = None) -> tuple[float, str, str]:
    """Return (number, source, confidence) of a bare number, or of a table with them. A bare one has those that stand `beside` it."""
    if isinstance(raw, dict):
        _check_keys(raw, ("value", "source", "confidence"), place, source)
        return _number(raw.get("value"), f"{place}.value", source, least, most), *_origin(raw, place, source)
    return _number(raw, place, source, least, most), *_origin(beside or {}, place, source)


def _origin(entry: Mapping[str, Any], place: str, source: str) -> tuple[str, str]:
    """Return source and confidence of an entry; a file need not say them of its own numbers."""
    where = _text(entry.get("source", "stated in the file"), f"{place}.source", source)
    sure = _text(entry.get("confidence", "estimate"), f"{place}.confidence", source)
    if sure not in CONFIDENCE:
        raise CheckError(f"{place}.confidence: {sure} is unknown; known: {', '.join(CONFIDENCE)}", source=source)
    return where, sure


def _number(raw: Any, place: str, source: str, least: float = 0.0, most: float = MAX_NUMBER) -> float:
    if raw is None:
        raise CheckError(f"{place}: is missing", source=source)
    if isinstance(raw, bool) or not isinstance(raw, (int, float)):
        raise CheckError(f"{place}: must be a number", source=source)
    if not least <= raw <= most:  # NaN too
        shown = f"a number of {len(str(raw))} digits" if isinstance(raw, int) and abs(raw) >= 10**30 else raw
        raise CheckError(f"{place}: {shown} is not from {least:g} to {most:g}", source=source)
    return float(raw)


def _words(entry: Mapping[str, Any], key: str, place: str, source: str) -> str:
    if key not in entry:
        raise CheckError(f"{place}{'.' * bool(place)}{key}: is missing", source=source)
    return _text(entry[key], f"{place}{'.' * bool(place)}{key}", source)


def _text(raw: Any, place: str, source: str) -> str:
    if not isinstance(raw, str) or not raw or len(raw) > 1000 or not raw.isprintable():
        raise CheckError(f"{place}: must be words in quotes, on one line, of at most 1000 characters", source=source)
    return raw


def _table(raw: Any, place: str, source: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise CheckError(f"{place}: must be a table", source=source)
    return raw


def _list(raw: Any, place: str, source: str) -> list[Any]:
    if not isinstance(raw, list):
        raise CheckError(f"{place}: must be a list", source=source)
    return raw
