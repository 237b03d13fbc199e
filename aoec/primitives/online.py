"""online: a softmax between two products is made in one pass over what it is taken along."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Func, walk
from aoec.ir.index import Expr, Int
from aoec.primitives.nest import check_new, find_block, node_name
from aoec.primitives.one_pass import OnePass
from aoec.primitives.primitive import Primitive
from aoec.primitives.softmax import found_softmax


@dataclass(frozen=True)
class Online(Primitive):
    """Takes the rows of a softmax that stands between two products in tiles of `shares` x `rows`, and the axis that it is taken along in
    parts of `keys`: each part's scores are made, their shares and the product with these, before the next.

    A row's maximum and sum, and the result so far, are carried from part to part, and scaled by exp(old maximum - new maximum) where a
    part has a greater one (Milakov and Gimelshein, arXiv:1805.02867). The maximum starts from the least number, not -inf, so that a part
    without a score above -inf changes nothing. Sums are of another order, so they round differently, as they do after `reorder`.

    What is worked on between the products is `keys` wide, with -3e38 as scores behind the last, so that the parts of a row are whole, and
    the carried result `columns`. Each of these nests has a loop over shares of kind core (none where shares is left out): a core for each,
    beside those of the products. What goes from products to them and back is copied: <buffer>_out on the way out, <buffer>_in on the way
    in. With `whole`, which is 1, a part has all keys: then there is no loop over parts, and nothing is carried or scaled. What is added to
    the scores of all rows alike is brought once, in front of the rest. Only before all else.

    before:
        func f(Q: fp16[2, 3, 2], K: fp16[2, 5, 2], V: fp32[2, 5, 4]) -> (Y: fp32[2, 3, 4]) {
          local C: fp32[2, 3, 5]
          local M: fp32[2, 3, 1]
          local D: fp32[2, 3, 5]
          local E: fp32[2, 3, 5]
          local L: fp32[2, 3, 1]
          local O: fp32[2, 3, 4]
          for cb in 2 {
            for cm in 3 {
              for cn in 5 {
                for cd in 2 {
                  qk: C[cb, cm, cn] += Q[cb, cm, cd] * K[cb, cn, cd]
                }
              }
            }
          }
          for mb in 2 {
            for mm in 3 {
              for mn in 5 {
                top: M[mb, mm, 0] max= C[mb, mm, mn]
              }
            }
          }
          for gb in 2 {
            for gm in 3 {
              for gn in 5 {
                gap: D[gb, gm, gn] = C[gb, gm, gn] - M[gb, gm, 0]
              }
            }
          }
          for eb in 2 {
            for em in 3 {
              for en in 5 {
                e: E[eb, em, en] = exp(D[eb, em, en])
              }
            }
          }
          for lb in 2 {
            for lm in 3 {
              for ln in 5 {
                total: L[lb, lm, 0] += E[lb, lm, ln]
              }
            }
          }
          for ob in 2 {
            for om in 3 {
              for oe in 4 {
                for on in 5 {
                  pv: O[ob, om, oe] += E[ob, om, on] * V[ob, on, oe]
                }
              }
            }
          }
          for yb in 2 {
            for ym in 3 {
              for ye in 4 {
                out: Y[yb, ym, ye] = O[yb, ym, ye] / L[yb, ym, 0]
              }
            }
          }
        }
    call:
        online(block=pv, rows=2, keys=4)
    after:
        func f(Q: fp16[2, 3, 2], K: fp16[2, 5, 2], V: fp32[2, 5, 4]) -> (Y: fp32[2, 3, 4]) {
          local M: fp32[2, 1]
          local L: fp32[2, 1]
          local O: fp32[2, 4]
          local C: fp32[2, 4]
          local C_out: fp32[2, 4]
          local C_in: fp32[2, 4]
          local M_part: fp32[2, 1]
          local M_new: fp32[2, 1]
          local M_less: fp32[2, 1]
          local M_scale: fp32[2, 1]
          local E_out: fp32[2, 4]
          local L_old: fp32[2, 1]
          local L_part: fp32[2, 1]
          local O_part: fp32[2, 4]
          local O_out: fp32[2, 4]
          local O_in: fp32[2, 4]
          local Y_tile: fp32[2, 4]
          require 1 "every share of the last tile of rows has some; use smaller tiles"
          require 1 "the result that is carried has all columns"
          for ob in 2 {
            for m_t in 2 {
              for M_start_i in min(3 - m_t * 2, 2) {
                M_start: M[M_start_i, 0] = -3e+38
              }
              for L_start_i in min(3 - m_t * 2, 2) {
                L_start: L[L_start_i, 0] = 0.0
              }
              for O_start_i in min(3 - m_t * 2, 2) {
                for O_start_j in 4 {
                  O_start: O[O_start_i, O_start_j] = 0.0
                }
              }
              for n_t in 2 {
                for qk_r in min(3 - m_t * 2, 2) {
                  for qk_j in min(5 - n_t * 4, 4) {
                    for qk_k in 2 {
                      qk: C[qk_r, qk_j] += Q[ob, m_t * 2 + qk_r, qk_k] * K[ob, n_t * 4 + qk_j, qk_k]
                    }
                  }
                }
                for C_out_r in min(3 - m_t * 2, 2) {
                  for C_out_j in min(5 - n_t * 4, 4) {
                    C_out: C_out[C_out_r, C_out_j] = C[C_out_r, C_out_j]
                  }
                }
                for C_in_i in min(3 - m_t * 2, 2) {
                  for C_in_j in 4 {
                    C_in: C_in[C_in_i, C_in_j] = select(C_in_j < min(5 - n_t * 4, 4), C_out[C_in_i, C_in_j], -3e+38)
                  }
                }
                for M_part_i in min(3 - m_t * 2, 2) {
                  for M_part_j in 4 {
                    M_part: M_part[M_part_i, 0] max= C_in[M_part_i, M_part_j]
                  }
                }
                for M_new_i in min(3 - m_t * 2, 2) {
                  M_new: M_new[M_new_i, 0] = max(M[M_new_i, 0], M_part[M_new_i, 0])
                }
                for M_less_i in min(3 - m_t * 2, 2) {
                  M_less: M_less[M_less_i, 0] = M[M_less_i, 0] - M_new[M_less_i, 0]
                }
                for M_scale_i in min(3 - m_t * 2, 2) {
                  M_scale: M_scale[M_scale_i, 0] = exp(M_less[M_scale_i, 0])
                }
                for M_keep_i in min(3 - m_t * 2, 2) {
                  M_keep: M[M_keep_i, 0] = M_new[M_keep_i, 0]
                }
                for D_i in min(3 - m_t * 2, 2) {
                  for D_j in 4 {
                    D: C_in[D_i, D_j] = C_in[D_i, D_j] - M_new[D_i, 0]
                  }
                }
                for E_i in min(3 - m_t * 2, 2) {
                  for E_j in 4 {
                    E: C_in[E_i, E_j] = exp(C_in[E_i, E_j])
                  }
                }
                for E_out_i in min(3 - m_t * 2, 2) {
                  for E_out_j in 4 {
                    E_out: E_out[E_out_i, E_out_j] = C_in[E_out_i, E_out_j]
                  }
                }
                for L_part_i in min(3 - m_t * 2, 2) {
                  for L_part_j in 4 {
                    L_part: L_part[L_part_i, 0] += C_in[L_part_i, L_part_j]
                  }
                }
                for L_old_i in min(3 - m_t * 2, 2) {
                  L_old: L_old[L_old_i, 0] = L[L_old_i, 0] * M_scale[L_old_i, 0]
                }
                for L_new_i in min(3 - m_t * 2, 2) {
                  L_new: L[L_new_i, 0] = L_old[L_new_i, 0] + L_part[L_new_i, 0]
                }
                for pv_r in min(3 - m_t * 2, 2) {
                  for pv_j in 4 {
                    for pv_k in min(5 - n_t * 4, 4) {
                      pv: O_part[pv_r, pv_j] += E_out[pv_r, pv_k] * V[ob, n_t * 4 + pv_k, pv_j]
                    }
                  }
                }
                for O_out_r in min(3 - m_t * 2, 2) {
                  for O_out_j in 4 {
                    O_out: O_out[O_out_r, O_out_j] = O_part[O_out_r, O_out_j]
                  }
                }
                for O_in_i in min(3 - m_t * 2, 2) {
                  for O_in_j in 4 {
                    O_in: O_in[O_in_i, O_in_j] = O_out[O_in_i, O_in_j]
                  }
                }
                for O_old_i in min(3 - m_t * 2, 2) {
                  for O_old_j in 4 {
                    O_old: O[O_old_i, O_old_j] = O[O_old_i, O_old_j] * M_scale[O_old_i, 0]
                  }
                }
                for O_new_i in min(3 - m_t * 2, 2) {
                  for O_new_j in 4 {
                    O_new: O[O_new_i, O_new_j] = O[O_new_i, O_new_j] + O_in[O_new_i, O_new_j]
                  }
                }
              }
              for Y_tile_i in min(3 - m_t * 2, 2) {
                for Y_tile_j in 4 {
                  Y_tile: Y_tile[Y_tile_i, Y_tile_j] = O[Y_tile_i, Y_tile_j] / L[Y_tile_i, 0]
                }
              }
              for out_i in min(3 - m_t * 2, 2) {
                for out_j in 4 {
                  out: Y[ob, m_t * 2 + out_i, out_j] = Y_tile[out_i, out_j]
                }
              }
            }
          }
        }
    """

    word = "online"
    block: str
    rows: Expr
    keys: Expr
    shares: Expr | None = None
    columns: Expr | None = None
    whole: Expr | None = None
    tile: str = "m_t"
    part: str = "n_t"

    def apply(self, func: Func) -> Func:
        find_block(func, self.block)
        if func.constraints or any(b.scope != "GM" for b in func.locals):
            raise ScheduleError(f"{self.block} and what leads to it are scheduled already; take a softmax in one pass before all else")
        check_new(func, self.tile, self.part)
        if self.whole not in (None, Int(0), Int(1)):
            raise ScheduleError("whole is 1, or 0")
        made = OnePass(func, found_softmax(func, self.block), self.rows, self.keys, self.shares, self.columns, self.tile, self.part,
                       self.whole == Int(1))
        done = replace(func, body=made.body(), locals=tuple(made.locals), constraints=made.constraints())
        names = [node_name(n) for n, _ in walk(done.body)] + [b.name for b in done.buffers]
        twice = next((name for name in names if names.count(name) > 1 and name not in {b.name for b in done.locals}), "")
        if twice:
            raise ScheduleError(f"the name {twice} is in use already; what is made of {self.block} would have it too")
        return done
