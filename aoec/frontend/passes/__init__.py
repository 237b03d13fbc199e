"""Clean-up passes over a draft, one file each; every pass keeps the values of the graph."""
from __future__ import annotations

from aoec.frontend.passes.affine import fold_affine
from aoec.frontend.passes.attentions import find_attentions
from aoec.frontend.passes.by_rules import ByRules
from aoec.frontend.passes.common import share_equal
from aoec.frontend.passes.dead import drop_dead
from aoec.frontend.passes.expansions import drop_expansions
from aoec.frontend.passes.find_dynamic import find_dynamic, join_dynamic
from aoec.frontend.passes.find_quantised import find_quantised
from aoec.frontend.passes.fold_constants import fold_constants
from aoec.frontend.passes.guards import drop_guards
from aoec.frontend.passes.identities import drop_identities
from aoec.frontend.passes.joins import join_neighbours, join_slices
from aoec.frontend.passes.operand_turns import turn_in_products
from aoec.frontend.passes.pads import fold_pads
from aoec.frontend.passes.precision import choose_precision
from aoec.frontend.passes.query_scales import scale_queries
from aoec.frontend.passes.row_stacks import stack_rows
from aoec.frontend.passes.scalars import use_scalars
from aoec.frontend.passes.shared_keys import share_keys
from aoec.frontend.passes.shuffles import find_shuffles
from aoec.frontend.passes.siblings import join_siblings
from aoec.frontend.passes.signs import move_signs
from aoec.frontend.passes.transposes import scale_last, sink_transposes
from aoec.frontend.passes.unsqueezes import work_as_images, work_unsqueezed
from aoec.frontend.rewrites.apply import Rewriting, apply
from aoec.ir.graph.draft import Draft

find_gates, find_gelus, find_row_norms = ByRules("gates"), ByRules("gelus"), ByRules("row_norms")
fold_biases, fold_scales, join_constants = ByRules("biases"), ByRules("column_scales"), ByRules("sums")
turn_images, write_on_halves = ByRules("image_turns"), ByRules("row_halves")

# in order: quantised work while its weights are whole numbers; then constants, since all others look for them; equal work and transposes
# that cancel (some once the views between them are one), so that patterns meet; what exporters spell out before its links are folded;
# affine chains once nothing lies between their links
PASSES = (drop_dead, drop_identities, find_quantised, drop_dead, fold_constants, drop_identities, find_dynamic, drop_dead, use_scalars,
          drop_identities, share_equal, drop_expansions, drop_dead, join_slices, work_unsqueezed, sink_transposes, drop_identities,
          drop_dead, sink_transposes, drop_identities, find_shuffles, drop_dead, fold_pads, drop_guards, drop_dead, fold_biases,
          fold_scales, find_row_norms, find_gelus, find_gates, drop_dead, work_as_images, join_constants, move_signs, write_on_halves,
          drop_dead, scale_last, drop_dead, find_attentions, share_keys, sink_transposes, drop_dead, fold_affine, turn_in_products,
          scale_queries, join_siblings, find_gates, drop_dead, join_dynamic, drop_dead, turn_images, join_neighbours, drop_identities,
          stack_rows, drop_identities, drop_dead)

__all__ = ["PASSES", "choose_precision", "clean", "drop_dead", "drop_expansions", "drop_guards", "drop_identities", "find_attentions",
           "find_dynamic", "find_gates", "find_gelus", "find_quantised", "find_row_norms", "find_shuffles", "fold_affine", "fold_biases",
           "fold_constants", "fold_pads", "fold_scales", "join_constants", "join_dynamic", "join_neighbours", "join_siblings",
           "join_slices", "move_signs", "scale_last", "scale_queries",
           "share_equal", "share_keys", "sink_transposes", "stack_rows", "turn_images", "turn_in_products", "use_scalars", "work_as_images",
           "work_unsqueezed", "write_on_halves"]


def clean(draft: Draft, precision: str = "fp16", rewriting: Rewriting | None = None) -> None:
    """Run every pass over the draft. Where dtypes are chosen operator by operator (`keep`, `mixed`), skip the pass that joins products and
    a softmax. `rewriting` holds the places where rules are declined and the user's own rules, and it records what was applied."""
    rewriting = rewriting if rewriting is not None else Rewriting()
    for run in PASSES:
        if isinstance(run, ByRules):
            run(draft, rewriting)
        elif run is drop_identities:
            drop_identities(draft, rewriting)
        elif run is not find_attentions or precision not in ("keep", "mixed"):
            run(draft)
    if rewriting.own:
        apply(rewriting.own, draft, rewriting)
        for run in (fold_constants, drop_identities, drop_dead):
            run(draft)
