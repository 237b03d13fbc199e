"""The report of a tuned model as a page for any browser: one file without network, and the same figures as JSON beside it.

Every number of the page is looked up in those facts and carries its place there (`data-at`), so the two cannot differ. Names come from
models and are hostile: the template escapes all that it is given, and the page's policy lets nothing run but our own script.
"""
from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING, Any

from aoec.report.pictures import launches, plots
from aoec.report.pictures.launches import Launch, Structure
from aoec.report.pictures.plots import Roofline, Strip
from aoec.report.pictures.step_timeline import milliseconds
from aoec.report.table import Report, as_dict

if TYPE_CHECKING:
    from jinja2 import Environment

FORMAT = "aoec report 1"
SIDES = ("default", "tuned")
ROWS = 2000  # of the table: those that take the most
PAGE_BYTES = 3 << 20  # of the parts on single groups that stand in the page itself; those of further groups are files of their own
NAMES = 40  # nodes or groups in a sentence


@dataclass(frozen=True)
class Detail:
    """What the page says of a row of the table beyond the row. By side, default and tuned: `schedules` (texts), `measures` (figures of one
    run), `strips` (drawings of the cores that end last, up to `until_us`), which are not among the facts. `search`: how the schedule was
    found, if that is known. `pictures`: files by side. `results`: the tensors that the group makes for others."""

    nodes: tuple[str, ...]
    equal: tuple[str, ...]
    outcome: str
    trials: int
    schedules: Mapping[str, str]
    measures: Mapping[str, Mapping[str, Any]]
    roofline: Roofline | None = None
    search: Mapping[str, Any] | None = None
    pictures: Mapping[str, str] = field(default_factory=dict)
    strips: Mapping[str, tuple[Strip, ...]] = field(default_factory=dict)
    until_us: float = 0.0
    results: tuple[str, ...] = ()


@dataclass(frozen=True)
class About:
    """Of which tool, model version and machine the figures are."""

    tool: str
    model_version: str
    machine_hash: str
    clock_mhz: float


def facts(report: Report, details: Mapping[str, Detail], about: About, structure: Structure | None = None) -> dict[str, Any]:
    """Return all figures of the page as plain values: those of the closing table, of each of its groups what only the page shows, and how
    the model is put together."""
    said = as_dict(report)
    whole = sum(r.count * (r.times.tuned_us or 0.0) for r in report.rows)
    groups = [{**g, "share": g["count"] * (g["tuned_us"] or 0.0) / whole if whole else 0.0,
               **_detail(details.get(g["name"]))} for g in said["groups"]]
    ours = [g for g in groups if g["runs_on"] == "AI Core"]
    counts = {"groups": sum(g["count"] for g in ours), "distinct": len(ours), "proven": sum(bool(g["proof"]) for g in ours),
              "proven_share": sum(g["count"] * (g["tuned_us"] or 0.0) for g in ours if g["proof"]) / whole if whole else 0.0}
    put = {} if structure is None else {"structure": _structure(structure)}
    return {"format": FORMAT, **asdict(about), **said, "counts": counts, **put,
            "groups": sorted(groups, key=lambda g: (-g["share"], g["runs_on"] == "view"))}


def _structure(s: Structure) -> dict[str, Any]:
    """Return the launches as plain values."""
    listed = [{"name": x.name, "kind": x.kind, "us": x.us, "slices": x.slices, "reads": list(x.reads),
               "imported": [list(pair) for pair in x.imported], "added": [list(pair) for pair in x.added]} for x in s.launches]
    return {"launches": listed, "elsewhere": dict(s.elsewhere)}


def _read_structure(said: Mapping[str, Any]) -> Structure:
    """Return the launches of the facts."""
    listed = [Launch(x["name"], x["kind"], _pairs(x["imported"]), _pairs(x["added"]), x["us"], x["slices"], tuple(x["reads"]))
              for x in said["launches"]]
    return Structure(tuple(listed), tuple(said["elsewhere"].items()))


def _pairs(listed: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Return names and words of operators, out of lists."""
    return tuple((name, word) for name, word in listed)


def _detail(d: Detail | None) -> dict[str, Any]:
    """Return a detail as plain values."""
    if d is None:
        return {"detail": None, "trials": 0}
    roofline = asdict(d.roofline) if d.roofline else None
    return {"trials": d.trials, "detail": {
        "nodes": list(d.nodes), "results": list(d.results), "equal": list(d.equal), "outcome": d.outcome, "schedules": dict(d.schedules),
        "measures": {side: dict(m) for side, m in d.measures.items()}, "roofline": roofline, "search": d.search,
        "pictures": dict(d.pictures)}}


def as_json(said: Mapping[str, Any]) -> str:
    """Return the facts as a file."""
    return json.dumps(said, indent=1, allow_nan=False) + "\n"


# ---------------------------------------------------------------- the page

def pages(said: Mapping[str, Any], details: Mapping[str, Detail], gears: Mapping[str, str] | None = None,
          beside: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return file name -> text: index.html, and where there are too many groups for it a file for each further one. `gears`: address by
    name, of a model for several shapes. `beside`: address by title, of other pages of the same model."""
    environment, number = make_environment(), Numbers(said)
    inside, outside, size = [], {}, 0
    for place, group in enumerate(said["groups"]):
        if group["detail"] is None:
            continue
        text = environment.get_template("group.html").render(g=group, at=f"groups.{place}", n=number, searched=said["tuned"],
                                                             d=make_drawings(group, details[group["name"]]))
        size += len(text.encode())
        if size <= PAGE_BYTES:
            inside.append(text)
        else:
            outside[f"group{place}.html"] = text
    most = max((g["share"] for g in said["groups"]), default=0.0) or 1.0
    rows = [g for g in said["groups"] if g["runs_on"] != "view"]  # views are last, move nothing and take no time
    drawn = launches.picture(_read_structure(said["structure"])) if "structure" in said else ""
    frame = {"facts": said, "drawn": drawn, "most": most, "n": number, "gears": gears or {}, "beside": beside or {},
             "rows": rows[:ROWS], "rows_of": len(rows),
             "views": sum(g["count"] for g in said["groups"] if g["runs_on"] == "view"),
             "places": {name.removesuffix(".html"): name for name in outside}}
    whole = environment.get_template("page.html")
    return {"index.html": whole.render(**frame, details=inside, alone=False),
            **{name: whole.render(**frame, details=[text], alone=True) for name, text in outside.items()}}


def make_drawings(group: Mapping[str, Any], detail: Detail) -> dict[str, Any]:
    """Return the drawings of a group. Times of axes are in µs."""
    told, search = group["detail"], group["detail"]["search"]
    curve = plots.convergence(search["improvements"], search["trials"], group["bound_us"]) if search else ""
    before, now = (told["schedules"][side].splitlines() for side in SIDES)
    return {"curve": curve, "roofs": plots.roofs(told["roofline"]) if told["roofline"] else "",
            "strips": detail.strips, "until": detail.until_us, "ticks": plots.ticks(detail.until_us),
            "default": before, "tuned": [(line, line not in before) for line in now]}


class Numbers:
    """What the template calls for a number: its place among the facts, and as what it is to be read."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.said = said

    def __call__(self, at: str, kind: str = "us") -> Any:
        """Return the number as an element that says where it stands; a dash where there is none."""
        from markupsafe import Markup
        value: Any = self.said
        for name in at.split("."):
            value = value[int(name)] if isinstance(value, list) else value[name]
        if value is None:
            return Markup('<data value="">–</data>')
        return Markup('<data value="{}" data-at="{}">{}</data>').format(repr(value), at, FORMS[kind](value))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if abs(share) < 9.995 else f"{100 * share:,.0f} %"


def _bytes(size: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= 10 * unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size:,.0f} B"


FORMS: Mapping[str, Callable[[Any], str]] = {
    "us": lambda v: f"{v:,.2f}", "ms": lambda v: f"{milliseconds(v)} ms", "count": lambda v: f"{v:,.0f}", "percent": _percent,
    "bytes": _bytes, "rate": lambda v: f"{v:,.1f}",
    "factor": lambda v: f"{v:.4g}"}


def clean(words: str) -> str:
    """Return words without what is not printed, such as control characters and those that turn the direction of a line."""
    return "".join(c if c.isprintable() else "?" for c in words)


@lru_cache(maxsize=1)
def make_environment() -> Environment:
    """Return the templates, with what they call; everything is escaped but what is marked as ours."""
    from jinja2 import DictLoader, Environment, StrictUndefined
    from markupsafe import Markup
    script, style = _text("page.js"), _text("page.css")
    made = Environment(loader=DictLoader({name: _text(name) for name in ("page.html", "group.html", "gradients.html")}), autoescape=True,
                       undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {"ours": Markup, "clean": clean, "named": name_list, "short": plots.short, **FORMS}
    made.globals |= {"script": Markup(script), "style": Markup(style), "sides": SIDES,
                     "allowed": "sha256-" + b64encode(sha256(script.encode()).digest()).decode()}
    return made


def name_list(names: Sequence[str]) -> str:
    """Return names in a line, the first of them where there are many."""
    more = f" and {len(names) - NAMES:,} more" if len(names) > NAMES else ""
    return ", ".join(map(clean, names[:NAMES])) + more


@lru_cache(maxsize=8)
def _text(name: str) -> str:
    return resources.files("aoec.report").joinpath(name).read_text("utf-8")
