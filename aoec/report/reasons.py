"""A measure in lines for people: the figures, what binds, where each pipe's time went, and what would help."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Facts = Mapping[str, Any]
KINDS = ("busy", "memory", "issue", "queue", "flags", "cross", "head", "idle")
HEADS = {"memory": "shared memory", "issue": "not issued", "queue": "queue full", "flags": "wait flag", "cross": "wait cores",
         "head": "start"}


def lines(facts: Facts) -> str:
    """Return the text of a measure's facts (dataclasses.asdict and `kind`)."""
    plain = "".join(f"{k:18} {value(v)}\n" for k, v in facts.items() if k not in ("reasons", "verdict"))
    why, verdict = facts.get("reasons"), facts.get("verdict")
    if not why or not verdict:
        return plain
    out = [verdict["sentence"], *_summary(why), "", *table(*_accounts(why)), "", *_waits(why)]
    return plain + "\n" + "\n".join([*out, *(f"hint: {a}" for a in verdict["advice"])]) + "\n"


def value(v: Any) -> str:
    """Return a figure, or figures by name, as read by people."""
    if isinstance(v, dict):
        return ", ".join(f"{k} {value(x)}" for k, x in v.items())
    if isinstance(v, float):
        return f"{v:,.0f}" if v == round(v) and abs(v) >= 1000 else f"{v:,.2f}"  # bytes, and cycles that come out even
    return f"{v:,}" if isinstance(v, int) else str(v)


def state_words(state: str) -> str:
    """Return a memory state in words, to stand behind "from"."""
    return f"L2 with {state} (bytes)" if "=" in state else "an L2 that was cleared" if state == "cleared" else state


def percent(share: float) -> str:
    """Return a share as a percentage: to one decimal below ten."""
    return f"{100 * share:.1f} %" if 0.0005 <= abs(share) < 0.0995 else f"{100 * share:.0f} %"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return aligned lines: the first column to the left, the others to the right."""
    widths = [max(len(r[i]) for r in [heads, *rows]) for i in range(len(heads))]
    return ["  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))).rstrip()
            for r in [heads, *rows]]


def _summary(why: Facts) -> list[str]:
    cores = ", ".join(f"{s} {used} of {there}" for s, (used, there) in why["cores"].items())
    paths = ", ".join(f"{p} {value(b['hbm'])} + {value(b['l2'])}" for p, b in why["bytes_by_path"].items())
    shown = ", ".join(f"{s}.{c}" for s, c in why["last_core"].items())
    return [f"cores: {cores}; slowest {why['imbalance']:.3f} of the mean; shown: {shown}",
            f"memory: HBM held {percent(why['hbm_held'])}, L2 {percent(why['l2_held'])}; {percent(why['l2_hit_rate'])} of the bytes hit L2",
            f"bytes from HBM + L2: {paths or 'none'}"]


def _accounts(why: Facts) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of where each pipe's cycles went; kinds that nothing went to are left out."""
    accounts = why["accounts"]
    kinds = [k for k in KINDS if any(a[k] for a in accounts.values())]
    heads = ["cycles of", *(HEADS.get(k, k) for k in kinds), "total", "held", "mean core"]
    return heads, [[pipe, *(f"{a[k]:,.0f}" for k in kinds), f"{a['total']:,.0f}", percent(held_share(a)), f"{a['mean_busy']:,.0f}"]
                   for pipe, a in accounts.items()]


def held_share(account: Facts) -> float:
    """Return the share of the time that a pipe holds work."""
    return (account["busy"] + account["memory"]) / account["total"] if account["total"] else 0.0


def _waits(why: Facts) -> list[str]:
    """Return the longest waits, as lines."""
    rows = [f"  {w['cycles']:>14,.0f}  {wait_words(w)}" for w in why["waits"][:8]]
    return ["longest waits, in cycles:", *rows] if rows else []


def wait_words(w: Facts) -> str:
    """Return the words of a wait, such as "MTE2 for a free slot of A_L1 (1 slot) from MTE1"."""
    slots = f" ({w['depth']} slot{'s' if w['depth'] != 1 else ''})"
    what = {"data": f"data in {w['buffer']}{slots} from {w['source']}", "slot": f"a free slot of {w['buffer']}{slots} from {w['source']}",
            "cross": f"cores of stream {w['source']}"}
    return f"{w['pipe']} for {what.get(w['why'], 'a flag from ' + w['source'])}"
