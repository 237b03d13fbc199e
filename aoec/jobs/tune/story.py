"""The course of a search, in so few numbers that they are always kept: each improvement, the fastest candidates, the size of the space."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from aoec.bank.record import Record
from aoec.jobs.known import memo
from aoec.jobs.tune.tuning import Outcome, Problem
from aoec.search.space.name import structure

LEADERS = 10


@dataclass(frozen=True)
class Leader:
    """One of the fastest candidates: its sketch, by number and in words, the values of its holes, modelled ticks with launch."""

    sketch: int
    structure: str
    holes: Mapping[str, int]
    ticks: int


@dataclass(frozen=True)
class Story:
    """The course of a search. `improvements`: (legal trials so far, ticks), from the default to the best. The last may come from settling
    holes, which is no trial. `trials`: all legal ones. `size`: candidates of the space, legal or not."""

    improvements: tuple[tuple[int, int], ...]
    leaders: tuple[Leader, ...]
    trials: int
    size: int
    sketches: int


def story_of(p: Problem, found: Outcome) -> Story:
    """Return the story of a search that has ended; what --robust picks may be slower than where it ends."""
    known = found.history or ((1, found.default_ticks),)
    end = ((max(found.trials, 1), found.ticks),) if found.ticks < known[-1][1] else ()
    leaders = tuple(Leader(p.sketches[c[0]].number, structure(p.sketches[c[0]].trace), p.values(c), ticks)
                    for ticks, _, c in p.ledger.best[:LEADERS])
    return Story((*known, *end), leaders, found.trials, p.space.size, len(p.sketches))


def keep_story(story: Story, best: Record) -> Story:
    """Return the story, which later runs of this user that find its schedule in the bank know too."""
    memo().put(asdict(story), *_at(best))
    return story


def recall_story(best: Record) -> Story | None:
    """Return the story of the search that found a record. Return None where another user's did, or it is forgotten."""
    said = memo().get(*_at(best))
    try:
        return None if said is None else Story(
            tuple((int(n), int(ticks)) for n, ticks in said["improvements"]), tuple(Leader(**x) for x in said["leaders"]),
            int(said["trials"]), int(said["size"]), int(said["sketches"]))
    except (ValueError, TypeError, LookupError):
        return None


def _at(best: Record) -> tuple[str, ...]:
    return "story", best.key.digest, best.trace
