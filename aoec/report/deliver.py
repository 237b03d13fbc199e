"""What a delivery holds, as a table, as JSON (`schemas/deliver.json`), and the words of kernel writers as CSV. Times are modelled but where
they say that they are measured."""
from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aoec.report.gradients import gradient_part
from aoec.report.gradients.gradient_part import GradientPart

LABEL = "written for CANN, not yet run on a device by us"
HEADS = ("group", "what", "×", "all µs", "share", "gain", "record", "key", "tune", "kernel words")
WHOLE = ("latency_ns", "latency_default_ns", "isolated_ns")  # figures of a compiled model
WIDEST = 44  # characters of a name in the table
LEGEND = (
    "all µs        modelled time of all equal groups, with the schedule in use",
    "gain          time saved against the default schedule",
    "record        the operator of CANN's run-time bank whose line holds the tiling; ~ marks the nearest tiling that can be said",
    "key           exact: from your own file. predicted: CANN may not hit it. doubtful: nothing public says that CANN asks for such a",
    "              record on this chip, or it is of a slice of an operator",
    "tune          listed in tune_ops.json",
    "kernel words  in kernels.csv")


@dataclass(frozen=True)
class Line:
    """A different group. Times in µs, modelled, of one; `count`: how many there are. `record`: the operator whose record says its tiling,
    "" for none, with how its `key` is known, what it `differs` in, the modelled time of what it says and of what the default
    schedule's would say, and a `doubt`; `why` there is none.
    `theirs`: names in the user's own file, with the mean of the times there. `tune`: listed for CANN's own tuning. `words`: of kernel
    writers, by field; `values`: those as rows of the CSV."""

    name: str
    what: str
    kind: str
    count: float
    default_us: float
    us: float
    bound_us: float
    record: str = ""
    key: str = ""
    record_us: float = 0.0
    record_default_us: float | None = None
    differs: tuple[str, ...] = ()
    doubt: str = ""
    why: str = ""
    theirs: tuple[str, ...] = ()
    theirs_us: float | None = None
    tune: bool = False
    words: Mapping[str, Mapping[str, int | str | None]] = field(default_factory=dict)
    values: tuple[tuple[str, str, str, str, str], ...] = ()

    @property
    def all_us(self) -> float:
        return self.us * self.count

    @property
    def sure(self) -> bool:
        """Return whether it has a record against which nothing is known."""
        return bool(self.record) and not self.doubt


@dataclass(frozen=True)
class Delivery:
    """A whole delivery. `keys`: the file that keys come from, "" where they are predicted; `keys_kind`: of its times; `keys_us`: their sum,
    and of that what records are of, None where it says no times. `files`: what each file of the folder is. `alone`: operators of that file
    that none of the groups does, longest first. `notes`: what else is to be said. `figures`: those of a
    compiled model, by gear. `gradients`: what gradient tuning found; a delivery of that alone has no lines."""

    name: str
    target: str
    soc: str
    cores: int
    precision: str
    lines: tuple[Line, ...]
    keys: str = ""
    keys_kind: str = ""
    keys_us: tuple[float, float] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    alone: tuple[tuple[str, str, float | None], ...] = ()
    notes: tuple[str, ...] = ()
    figures: tuple[tuple[str, Mapping[str, int]], ...] = ()
    gradients: GradientPart | None = None

    @property
    def total_us(self) -> float:
        return sum(x.all_us for x in self.lines)

    def share(self, lines: Sequence[Line]) -> float:
        """Return the share of the modelled time that some of the groups take."""
        return sum(x.all_us for x in lines) / self.total_us if self.total_us else 0.0

    @property
    def recorded_lines(self) -> list[Line]:
        """Return the groups that have a record."""
        return [x for x in self.lines if x.record]

    @property
    def keys_share(self) -> float | None:
        """Return the share of the time in the user's own file that records are of."""
        return self.keys_us[1] / self.keys_us[0] if self.keys_us else None

    @property
    def of_records(self) -> dict[str, float | None]:
        """Return modelled µs of all groups that have a record: by our schedules and by default ones, each as it is and as a tiling says
        it."""
        xs = self.recorded_lines
        read = [x.record_default_us * x.count for x in xs if x.record_default_us is not None]
        return {"us": sum(x.all_us for x in xs), "default_us": sum(x.default_us * x.count for x in xs),
                "record_us": sum(x.record_us * x.count for x in xs), "record_default_us": sum(read) if len(read) == len(xs) else None}


def facts(d: Delivery) -> dict[str, Any]:
    """Return the delivery as a program reads it."""
    sure = [x for x in d.recorded_lines if x.sure]
    return {
        "status": LABEL, "times": "modelled", "model": d.name, "target": d.target, "soc": d.soc, "cores": d.cores, "precision": d.precision,
        "keys": {"source": d.keys, "times": d.keys_kind} if d.keys else None, "total_us": d.total_us,
        "figures": [{"gear": gear, **figures} for gear, figures in d.figures],
        "deliverable": {"share": d.share(sure), "share_with_doubtful": d.share(d.recorded_lines), "share_of_keys": d.keys_share,
                        "of_records": d.of_records},
        "groups": [_line(d, x) for x in d.lines],
        "only_in_keys": [{"name": name, "type": kind, "us": us} for name, kind, us in d.alone],
        "gradients": None if d.gradients is None else gradient_part.facts(d.gradients), "files": dict(d.files), "notes": list(d.notes)}


def _line(d: Delivery, x: Line) -> dict[str, Any]:
    record = {"op": x.record, "key": x.key, "us": x.record_us, "default_us": x.record_default_us, "differs": list(x.differs),
              "doubt": x.doubt} if x.record else None
    return {"name": x.name, "what": x.what, "kind": x.kind, "count": x.count, "default_us": x.default_us, "us": x.us,
            "bound_us": x.bound_us, "share": d.share([x]), "record": record, "read_us": x.record_us or None, "why_no_record": x.why,
            "theirs": list(x.theirs), "theirs_us": x.theirs_us, "tune": x.tune, "kernel_words": sorted(x.words)}


def as_json(d: Delivery) -> str:
    return json.dumps(facts(d), indent=2) + "\n"


def kernels_json(d: Delivery) -> str:
    """Return the text of `kernels.json`: the words by group, and what each means."""
    meanings = {f"{words}.{name}": meaning for x in d.lines for words, name, _, meaning, _ in x.values if name}
    said = [{"group": x.name, "what": x.what, "count": x.count, "us": x.us, "words": dict(x.words), "notes": {
        ".".join(filter(None, (words, name))): why for words, name, _, _, why in x.values if why}} for x in d.lines]
    return json.dumps({"status": LABEL, "times": "modelled", "target": d.target, "fields": meanings, "kernels": said}, indent=2) + "\n"


def kernels_csv(d: Delivery) -> str:
    """Return the text of `kernels.csv`: a row for each word of each group."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("group", "what", "words", "field", "value", "meaning", "note"))
    for x in d.lines:
        writer.writerows((x.name, x.what, *value) for value in x.values)
    return out.getvalue()


def text(d: Delivery) -> str:
    """Return the table, what it comes to, and the reason for each group without a record."""
    if d.gradients is not None and not d.lines:
        head = f"{_clip(d.name)}: {LABEL}; {d.gradients.times}"
        return "\n".join([head, "", *totals(d), "", *(f"{name}: {what}" for name, what in d.files.items())]) + "\n"
    rows = [HEADS, *(_cells(d, x) for x in sorted(d.lines, key=lambda x: -x.all_us))]
    widths = [max(len(r[i]) for r in rows) for i in range(len(HEADS))]
    left = (0, 1, 6, 7, 8, 9)
    table = ["  ".join(f"{c:<{w}}" if i in left else f"{c:>{w}}" for i, (c, w) in enumerate(zip(r, widths))).rstrip() for r in rows]
    head = f"{_clip(d.name)} on {d.target}: {LABEL}; times are modelled"
    return "\n".join([head, "", *table, "", *LEGEND, "", *totals(d), "", *_reasons(d)]) + "\n"


def _cells(d: Delivery, x: Line) -> tuple[str, ...]:
    gain = (x.default_us - x.us) / x.default_us if x.default_us else 0.0
    key = "" if not x.record else "doubtful" if x.doubt else x.key
    return (_clip(x.name), _clip(x.what), f"{x.count:g}", f"{x.all_us:,.1f}", f"{d.share([x]):.1%}", f"{gain:.1%}",
            x.record + "~" * bool(x.record and x.differs) or "-", key or "-", "yes" if x.tune else "-", ", ".join(sorted(x.words)) or "-")


def _clip(words: str) -> str:
    plain = "".join(c if c.isprintable() else "?" for c in words)
    return plain if len(plain) <= WIDEST else plain[:WIDEST - 1] + "…"


def totals(d: Delivery) -> list[str]:
    """Return lines: the share of the modelled time that records of CANN's bank can deliver, times, and the result of gradient tuning."""
    more = [] if d.gradients is None else gradient_part.totals(d.gradients)
    if not d.lines and more:
        return [*more, *d.notes]
    sure, doubted = [x for x in d.recorded_lines if x.sure], [x for x in d.recorded_lines if x.doubt]
    out = [f"deliverable as records of the run-time bank: {len(sure)} of {len(d.lines)} different groups, {d.share(sure):.1%} of the "
           f"modelled time ({sum(x.all_us for x in sure):,.1f} of {d.total_us:,.1f} µs)"]
    out += [f"and {len(doubted)} doubtful ones, {d.share(doubted):.1%} of the time"] * bool(doubted)
    out += [_of_records(d.of_records)] if d.recorded_lines else []
    exact = sum(x.key == "exact" for x in d.recorded_lines)
    where = f"{d.keys} ({exact} exact)" if d.keys else "predicted; CANN may not hit them, because its own fusions and layouts may differ"
    theirs = [f"of the {d.keys_us[0]:,.1f} µs in that file ({d.keys_kind}) they are {d.keys_share:.1%}"] if d.keys_us else []
    whole = [f"gear {gear}: " * bool(gear) + _model_times(ns) for gear, ns in d.figures if all(name in ns for name in WHOLE)]
    return [*out, *whole, f"keys: {where}", *theirs, *more, *d.notes]


def _model_times(ns: Mapping[str, int]) -> str:
    """Return the modelled times of a compiled model, in words."""
    latency, default, alone = (f"{ns[name] / 1000:,.2f}" for name in WHOLE)
    return f"one inference: {latency} µs, {default} by default schedules of the same groups; groups alone: {alone}"


def _of_records(us: Mapping[str, float | None]) -> str:
    """Return the modelled times of groups with a record, in words."""
    read = us["record_default_us"]
    so = "" if read is None else f", {read:,.1f} µs with default ones"
    return (f"modelled time of these groups: {us['us']:,.1f} µs with our schedules, {us['default_us']:,.1f} µs with default ones; as the "
            f"vendor's kernels read tilings, {us['record_us']:,.1f} µs with these records{so}")


def _reasons(d: Delivery) -> list[str]:
    """Return why groups have no record, those of one reason together."""
    by_why: dict[str, list[Line]] = {}
    for x in d.lines:
        if not x.record:
            by_why.setdefault(x.why, []).append(x)
    listed = sorted(by_why.items(), key=lambda item: -d.share(item[1]))
    return ["no record:", *(f"  {d.share(xs):6.1%}  {why}: {_some([x.name for x in xs])}" for why, xs in listed)] if listed else []


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(_clip, names[:6])) + f" and {len(names) - 6} more" * (len(names) > 6)
