"""Why a candidate takes its time, and what changed between two and what that cost, in sentences and tables.

Takes the facts of jobs/stages/explain.py. The parts of a critical path add up to the run, so their differences add up to the
difference of two runs. All times are modelled.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from aoec.base.text import plural
from aoec.report.reasons import held_share, percent, state_words, table, wait_words

Facts = Mapping[str, Any]
NOTABLE = 0.01  # of the longer time: what is less is not worth a sentence
WHATS = {"work": "work", "memory": "work, longer because cores share the memory", "latency": "latency until the result is there",
         "flag": "flags on their way", "issue": "issuing", "stall": "stalled", "cross": "waiting for other cores", "launch": "launch",
         "start": "start of the launch", "idle": "idle at the end",
         "wait": "waiting for flags"}
ACCOUNTS = {"busy": "work", "memory": "memory", "issue": "issue", "queue": "stall", "flags": "wait", "cross": "cross", "idle": "idle"}


@dataclass(frozen=True)
class Difference:
    """A part of the time of both candidates, in microseconds, and a sentence on it."""

    pipe: str
    what: str
    name: str
    a_us: float
    b_us: float
    delta_us: float
    sentence: str


@dataclass(frozen=True)
class Change:
    """Something that the candidates do not have alike, in words."""

    what: str
    a: str
    b: str


# ---------------------------------------------------------------- one candidate

def one(f: Facts) -> str:
    """Return the text on one candidate."""
    m = f["measure"]
    out = [headline(f), m["verdict"]["sentence"] + ".", ""]
    out += path_lines(f)
    out += ["", *_hidden(f), *_waits(f), *(f"hint: {a}" for a in m["verdict"]["advice"])]
    return "\n".join(out) + "\n"


def headline(f: Facts) -> str:
    """Return name, machine, times, cores, and what was in L2 at the start."""
    m = f["measure"]
    return (f"{f['source']}: {f['program']} on {f['target']}: modelled {m['time_us']:,.2f} us, launch {m['launch_us']:,.2f} us of it; "
            f"{m['cycles']:,.0f} cycles on {plural(m['cores'], 'core')}, from {state_words(f['state'])}")


def path_lines(f: Facts) -> list[str]:
    """Return the critical path as a table, largest part first."""
    if f["path"] is None:
        return [f"no critical path: it was looked for in {f['note']}"]
    total = sum(p["cycles"] for p in f["path"]) or 1.0
    rows = [[_part_words(f, p), f"{p['cycles'] / f['clock_mhz']:,.2f}", percent(p["cycles"] / total), f"{p['times']:,}"]
            for p in f["path"] if p["cycles"] >= NOTABLE / 4 * total]
    return table([f"critical path of core {f['core']}", "us", "share", "times"], rows)


def _part_words(f: Facts, p: Facts) -> str:
    work = next((w for w in works(f, p["pipe"]) if p["name"] == f"{w['op']} {w['buffer']}"), None)
    more = f" ({work['shape']}{_rate(work)})" if work and p["what"] == "work" else ""
    return f"{p['pipe']} {WHATS[p['what']]}" + (f": {p['name']}{more}" if p["name"] else "")


def _rate(work: Facts) -> str:
    """Return bytes a cycle of a transfer from or to GM, in words."""
    return f" at {work['gm_bytes'] * work['times'] / work['cycles']:,.0f} bytes a cycle" if work["gm_bytes"] and work["cycles"] else ""


def works(f: Facts, pipe: str) -> list[Facts]:
    """Return the instructions of a pipe, of the stream whose path is told."""
    names = {pipe, f"{f['core'].partition('.')[0]}.{pipe}"}
    return [w for w in f["measure"]["reasons"]["work"] if w["pipe"] in names]


def _account(f: Facts, pipe: str) -> Facts | None:
    accounts = f["measure"]["reasons"]["accounts"]
    return accounts.get(pipe) or accounts.get(f"{f['core'].partition('.')[0]}.{pipe}")


def _hidden(f: Facts) -> Iterator[str]:
    """Yield a sentence for each pipe that works much of the time but is little on the critical path."""
    for pipe, account in f["measure"]["reasons"]["accounts"].items():
        stream, _, name = pipe.rpartition(".")
        exposed = _on_path(f, name)
        told = f["path"] and name != "S" and stream in ("", f["core"].partition(".")[0])
        if told and held_share(account) > 0.1 and exposed < 0.5 * held_share(account) * account["total"]:
            yield (f"{pipe} works {percent(held_share(account))} of the time, {percent(exposed / account['total'])} on the path: "
                   "the rest is hidden behind other pipes.")


def _on_path(f: Facts, pipe: str) -> float:
    """Return cycles of a pipe's work on the path."""
    return sum(p["cycles"] for p in f["path"] or () if p["pipe"] == pipe and p["what"] in ("work", "memory"))


def _waits(f: Facts) -> Iterator[str]:
    """Yield the longest waits of pipes, as sentences."""
    for w in f["measure"]["reasons"]["waits"][:4]:
        account = f["measure"]["reasons"]["accounts"][w["pipe"]]
        yield f"{w['pipe']} waits {percent(w['cycles'] / account['total'])} of the time: {wait_words(w)}."


# ---------------------------------------------------------------- two candidates

def compare(a: Facts, b: Facts) -> dict[str, Any]:
    """Return what changed and what it cost, as plain values: `changes`, and `differences` with the largest first."""
    longer = max(a["measure"]["time_us"], b["measure"]["time_us"])
    return {"kind": "modelled", "a_us": a["measure"]["time_us"], "b_us": b["measure"]["time_us"],
            "delta_us": b["measure"]["time_us"] - a["measure"]["time_us"], "changes": [asdict(c) for c in changes(a, b)],
            "differences": [asdict(d) for d in differences(a, b, longer)], "a": dict(a), "b": dict(b)}


def two(said: Facts) -> str:
    """Return the text on two candidates."""
    a, b = said["a"], said["b"]
    faster = said["a_us"] / said["b_us"] if said["b_us"] else 1.0
    how = f"{faster:.2f} times as fast" if faster >= 1 else f"{1 / faster:.2f} times as slow"
    verdicts = [f"  {x['source']}: {x['measure']['verdict']['sentence']}" for x in (a, b)]
    out = ["a  " + headline(a), "b  " + headline(b), "", f"b is {how} as a ({said['delta_us']:+,.2f} us, modelled).", *verdicts, ""]
    out += ["What it cost, largest difference first:", *(f"  {d['sentence']}" for d in said["differences"] if d["sentence"]), ""]
    rows = [[_row_words(d), f"{d['a_us']:,.2f}", f"{d['b_us']:,.2f}", f"{d['delta_us']:+,.2f}"] for d in said["differences"]
            if max(abs(d["delta_us"]), d["b_us"]) > NOTABLE / 4 * max(said["a_us"], said["b_us"])]
    of = "critical path, us" if paths_known(a, b) else f"{busiest(b)} (too long for a critical path), us"
    out += table([of, "a", "b", "b - a"], [*rows, ["all", *(f"{said[k]:,.2f}" for k in ("a_us", "b_us")),
                                                                    f"{said['delta_us']:+,.2f}"]])
    out += ["", "What changed:", *(f"  {c['what']}: {c['a']} -> {c['b']}" for c in said["changes"])]
    out += ["", *(f"hint for b: {x}" for x in b["measure"]["verdict"]["advice"])]
    return "\n".join(out).rstrip() + "\n"


def _row_words(d: Facts) -> str:
    return f"{d['pipe']} {WHATS[d['what']]}".strip() + (f": {d['name']}" if d["name"] else "")


def differences(a: Facts, b: Facts, longer: float) -> list[Difference]:
    """Return parts of the two times, the largest difference first; by pipes' accounts where a path is not known."""
    pipe = "" if paths_known(a, b) else busiest(b)
    sides = [_parts(x, pipe) for x in (a, b)]
    out = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        x, y = (side.get(key, 0.0) for side in sides)
        words = sentence(a, b, key, x, y) if abs(y - x) >= NOTABLE * longer else ""
        out.append(Difference(*key, x, y, y - x, words))
    return sorted(out, key=lambda d: -abs(d.delta_us))


def paths_known(a: Facts, b: Facts) -> bool:
    """Return whether both candidates have a critical path."""
    return a["path"] is not None and b["path"] is not None


def busiest(f: Facts) -> str:
    """Return the pipe that holds work for most of the time, of the core that is told."""
    return str(max(("M", "V", "MTE1", "MTE2", "MTE3", "FIXP"), key=lambda p: held_share(x) if (x := _account(f, p)) else 0.0))


def _parts(f: Facts, pipe: str) -> dict[tuple[str, str, str], float]:
    """Return (pipe, what, buffer or instruction) -> microseconds, together the modelled time: of the critical path, or of a pipe's
    account."""
    if pipe:
        account = _account(f, pipe) or {}
        return {(pipe, what, ""): account.get(kind, 0.0) / f["clock_mhz"] for kind, what in ACCOUNTS.items()} | _launch(f)
    out: dict[tuple[str, str, str], float] = {}
    for p in f["path"] or ():
        op, _, buffer = p["name"].partition(" ")
        key = (p["pipe"], p["what"], op if p["pipe"] == "V" else buffer)
        out[key] = out.get(key, 0.0) + p["cycles"] / f["clock_mhz"]
    return out | _launch(f)


def _launch(f: Facts) -> dict[tuple[str, str, str], float]:
    return {("", "launch", ""): f["measure"]["launch_us"]}


def sentence(a: Facts, b: Facts, key: tuple[str, str, str], x: float, y: float) -> str:
    """Return the change of one part of the time, and its reason as far as the programs show it."""
    pipe, what, name = key
    head = f"{y - x:+,.2f} us: " + (f"{pipe} {WHATS[what]}" if pipe else WHATS[what]).strip() + (f" ({name})" if name else "")
    instead = f"{y:,.2f} us instead of {x:,.2f}"
    why = [*_more_or_less(a, b, pipe, name), *_exposure_words(a, b, pipe, name)] if what == "work" and name else []
    if what in ("work", "latency"):
        why += _slots(a, b, name)
    return f"{head}: " + "; ".join([instead, *why]) + "."


def _mine(f: Facts, pipe: str, name: str) -> list[Facts]:
    """Return the instructions of a pipe for a buffer (of V: of that name), the longest first."""
    return [w for w in works(f, pipe) if name in (w["buffer"], w["op"])]


def _busy_us(f: Facts, pipe: str, name: str) -> float:
    return float(sum(w["cycles"] for w in _mine(f, pipe, name))) / float(f["clock_mhz"])


def _more_or_less(a: Facts, b: Facts, pipe: str, name: str) -> Iterator[str]:
    """Yield how much work there is, and in what pieces."""
    before, after = _busy_us(a, pipe, name), _busy_us(b, pipe, name)
    if not before or not after:
        return
    if abs(after - before) > 0.03 * before:
        yield f"the work itself takes {after:,.2f} us a core instead of {before:,.2f}"
    old, new = _mine(a, pipe, name)[0], _mine(b, pipe, name)[0]
    if (old["times"], old["shape"], old["op"]) != (new["times"], new["shape"], new["op"]):
        yield f"{_pieces(new)} instead of {_pieces(old)}"


def _pieces(w: Facts) -> str:
    return f"{w['times']:,} times {w['op']} of {w['shape']}{_rate(w)}"


def _exposure_words(a: Facts, b: Facts, pipe: str, name: str) -> Iterator[str]:
    """Say how much of the work nothing hides."""
    before, after = _busy_us(a, pipe, name), _busy_us(b, pipe, name)
    if not before or not after:
        yield "only a has it" if before else "only b has it"
        return
    old, new = (min(1.0, _path_us(f, pipe, name) / busy) for f, busy in ((a, before), (b, after)))
    if new < old - 0.1 and _leader(b) != pipe:
        yield f"{percent(new)} of it is on the critical path instead of {percent(old)}, the rest is hidden behind {_leader(b)}"
    elif new > old + 0.1:
        yield f"{percent(new)} of it is on the critical path instead of {percent(old)}: now it is what the others wait for"


def _path_us(f: Facts, pipe: str, name: str) -> float:
    """Return microseconds of the path that are work of a pipe for a buffer (of V: work of that name), what sharing costs included."""
    mine = (p for p in f["path"] or () if p["pipe"] == pipe and p["what"] in ("work", "memory") and name in p["name"].split(" "))
    return float(sum(p["cycles"] for p in mine)) / float(f["clock_mhz"])


def _leader(f: Facts) -> str:
    """Return the pipe that most of the path is work of."""
    pipes = {p["pipe"] for p in f["path"] or ()} or {""}
    return str(max(sorted(pipes), key=lambda p: _on_path(f, p)))


def _slots(a: Facts, b: Facts, name: str) -> Iterator[str]:
    old, new = (x["slots"].get(name, {}).get("depth") for x in (a, b))
    if old and new and old != new:
        yield f"{name} has {_count(new, 'slot')} instead of {old}"


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


# ---------------------------------------------------------------- what changed

def changes(a: Facts, b: Facts) -> Iterator[Change]:
    """Yield the changes: grid, slots, instructions, bytes and flags that differ."""
    pairs: list[tuple[str, ...]] = [("target", a["target"], b["target"]), ("grid", _grid(a), _grid(b))]
    for name in dict.fromkeys([*a["slots"], *b["slots"]]):
        pairs.append((f"buffer {name}", _slot(a, name), _slot(b, name)))
    pairs += _instructions(a, b)
    for path in dict.fromkeys(p for x in (a, b) for p in x["measure"]["reasons"]["bytes_by_path"]):
        pairs.append((f"bytes {path}", _bytes(a, path), _bytes(b, path)))
    pairs.append(("L2 hits", *(percent(x["measure"]["reasons"]["l2_hit_rate"]) for x in (a, b))))
    for stream in dict.fromkeys(s for x in (a, b) for s in x["measure"]["reasons"]["flags"]):
        pairs.append((f"flags a core of {stream}", _flags(a, stream), _flags(b, stream)))
    pairs.append(("slowest core over mean", *(f"{x['measure']['reasons']['imbalance']:.3f}" for x in (a, b))))
    for pipe in dict.fromkeys(p for x in (a, b) for p in x["measure"]["reasons"]["accounts"]):
        pairs.append((f"{pipe} held", *(_held_percent(x, pipe) for x in (a, b))))
    yield from (Change(what, x, y) for what, x, y in pairs if x != y)


def _held_percent(f: Facts, pipe: str) -> str:
    account = f["measure"]["reasons"]["accounts"].get(pipe)
    return percent(held_share(account)) if account else "none"


def _flags(f: Facts, stream: str) -> str:
    found = f["measure"]["reasons"]["flags"].get(stream)
    return f"{found[0]:,} set, {found[1]:,} waited for" if found else "none"


def _grid(f: Facts) -> str:
    return ", ".join(f"{s} " + (" x ".join(f"{axis} {n}" for axis, n in axes.items()) or "1") for s, axes in f["grid"].items())


def _slot(f: Facts, name: str) -> str:
    slot = f["slots"].get(name)
    return f"{_count(slot['depth'], 'slot')} of {slot['bytes']:,} bytes in {slot['scope']}" if slot else "none"


def _instructions(a: Facts, b: Facts) -> list[tuple[str, ...]]:
    """Return (pipe and buffer, pieces in a, pieces in b)."""
    keys = dict.fromkeys((w["pipe"], w["buffer"]) for x in (a, b) for w in x["measure"]["reasons"]["work"])
    return [(f"{pipe} for {buffer}", *(", ".join(_pieces(w) for w in x["measure"]["reasons"]["work"] if (w["pipe"], w["buffer"]) ==
                                                 (pipe, buffer)) or "none" for x in (a, b))) for pipe, buffer in keys]


def _bytes(f: Facts, path: str) -> str:
    moved = f["measure"]["reasons"]["bytes_by_path"].get(path)
    return f"{moved['hbm'] + moved['l2']:,.0f}, {moved['hbm']:,.0f} of them from HBM" if moved else "none"
