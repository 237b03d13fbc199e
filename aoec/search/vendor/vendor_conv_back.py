"""Schedules of convolutions as the vendor's tilings (Conv2DV2), and back, as `vendor_back` does for matrix products.

Kernels of that operator drain L0C in granules (unitFlag of their public sources). They split the width over cores only for images of one
row. The pixels of such an image are one axis (mMode 1). Then hoL1, hoL0 and hoDim are extents and parts of this axis.
"""
from __future__ import annotations

from dataclasses import replace
from math import prod

from aoec.base.errors import CheckError, UnsupportedError
from aoec.ir.func.tir import Func
from aoec.ir.rewrite import fill
from aoec.ir.rewrite import holes as holes_of
from aoec.ir.schedule import Trace
from aoec.search.sketches.nests import Nest
from aoec.search.sketches.plan import unit_flag, ways
from aoec.search.sketches.sketches_cube import conv_sketch, stored_channels
from aoec.search.space.nearest import solve_holes
from aoec.search.vendor.vendor_back import SAID, Delivery, Refusal, on_the_way
from aoec.search.vendor.vendor_conv import M_FIRST, N_FIRST, ConvForm, ConvTiling, axes_of, conv_choice, convolution
from aoec.target.machine import Machine

Choice = tuple[ConvForm, dict[str, int]]


def conv_trace_of(func: Func, machine: Machine, tiling: ConvTiling) -> Trace:
    """Return the schedule of a tiling of a convolution. UnsupportedError where the func is none."""
    mm, gather = convolution(func)
    form, values = plainest(*conv_choice(func, tiling))
    sketch = sketch_of(func, mm, gather, machine, form, ways(func, mm, machine)[-1])
    left = {n: choices for n, choices in holes_of(sketch).items() if n not in values}
    rows = values["h0"] * values["w0"]
    return fill(sketch, {**values, **on_the_way(left, rows, values["n1"], 0, 0, machine)})


def plainest(form: ConvForm, values: dict[str, int]) -> Choice:
    """Return the form without an image resident that is brought for each L0 tile anyway, beside weights that stay."""
    once = form.resident == "both" and (values["h0"], values["w0"]) == (values["th"], values["tw"])
    return (replace(form, resident="weight") if once else form), values


def conv_tiling_of(func: Func, trace: Trace, machine: Machine) -> Delivery | Refusal:
    """Return the vendor's tiling that says a schedule of a convolution, or comes nearest to it; or why none does."""
    try:
        mm, gather = convolution(func)
        choice = choice_of(func, mm, gather, machine, trace)
    except (CheckError, UnsupportedError) as e:
        return Refusal(str(e))
    if choice is None:
        return Refusal("its structure is none that a convolution's fields say")
    if why := unsaid(func, mm, gather, *choice):
        return Refusal(why)
    return nearest(func, mm, gather, machine, trace, *choice)


def unsaid(func: Func, mm: Nest, gather: Nest, form: ConvForm, values: dict[str, int]) -> str:
    """Return what of a schedule the fields have no word for; "" where they have all."""
    if stored_channels(func) != 16:
        return f"results in planes of {stored_channels(func)} channels: the fields count in sixteens"
    if not axes_of(func, mm, gather).point and values.get("gw", 1) > 1:
        return "parts of the width over cores: the kernel takes them of images of one row alone"
    return ""


def nearest(func: Func, mm: Nest, gather: Nest, machine: Machine, trace: Trace, form: ConvForm, values: dict[str, int]) -> Delivery:
    """Return the tiling of a form with values, the schedule that it is read as, and what is other there. The tiling is said anew of what is
    read, so that nothing stands in it that a shape does not take."""
    read = conv_trace_of(func, machine, tiling_in(func, mm, gather, machine, form, values))
    now = choice_of(func, mm, gather, machine, read)
    assert now is not None
    tiling = tiling_in(func, mm, gather, machine, *now)
    return Delivery(tiling, read, difference((form, values), now) if read != trace else ())


def difference(was: Choice, now: Choice) -> tuple[str, ...]:
    """Return what of a schedule another one has otherwise, in words."""
    names = {"resident": "operands that stay in L1", "larger": "chunks of k in L1", "pixels_inside": "order of pixels and channels"}
    said = [text for n, text in names.items() if getattr(was[0], n) != getattr(now[0], n)]
    shared = [SAID.get(n, f"?{n}") for n, v in was[1].items() if now[1].get(n, v) != v]
    said += ["operands that go through UB"] * (("du" in was[1]) != ("du" in now[1]))
    return tuple(sorted({*said, *shared})) or ("whole rows",)


def tiling_in(func: Func, mm: Nest, gather: Nest, machine: Machine, form: ConvForm, values: dict[str, int]) -> ConvTiling:
    """Return the tiling of a form with values. An operand has two slots at most: one that has more beside one that stays gets as much of L1
    in two, of larger chunks."""
    axes = axes_of(func, mm, gather)
    whole = axes.chunk * axes.planes
    crowded = {"weight": values["da"], "image": values["db"]}.get(form.resident, 1)
    values = values | {"sk": values["sk"] * max(1, crowded // 2)}
    small, large = (min(values["sk"] * times * axes.chunk, whole) for times in (1, values.get("rk", 1)))
    k_image, k_weight = {"image": (whole, small), "weight": (small, whole), "both": (whole, whole)}.get(
        form.resident, (large, small) if form.larger == "image" else (small, large))
    width = values.get("tw", axes.width)
    pixels = ({"hoL1": width, "hoL0": values.get("w0", width), "woL1": 1, "woL0": 1, "hoDim": values.get("gw", 1)} if axes.point else
              {"hoL1": values["th"], "hoL0": values.get("h0", values["th"]), "woL1": width, "woL0": width, "hoDim": values["gh"]})
    groups = prod(values[f"g{lp.var}"] for lp in mm.loops[1:-4])
    channels = min(values["n1"] * 16, -(-axes.channels // 16) * 16)
    slots = {f"pb{n}": min(2, values[h]) for n, h in (("AL1", "da"), ("BL1", "db"), ("AL0", "d0a"), ("BL0", "d0b"), ("CL0", "dc"))}
    return ConvTiling(**pixels, **slots, kL0=min(values["tk"], whole), nL0=channels, kAL1=k_image, kBL1=k_weight, nBL1=channels,
                      batchDim=values["gb"], nDim=values["gn"], groupDim=groups,
                      iterateMNOrder=M_FIRST if form.pixels_inside else N_FIRST, unitFlag=unit_flag(func, mm, machine))


# ---------------------------------------------------------------- which form a schedule has

def sketch_of(func: Func, mm: Nest, gather: Nest, machine: Machine, form: ConvForm, through: tuple[str, ...]) -> Trace:
    """Return the sketch of a form."""
    point = axes_of(func, mm, gather).point
    return conv_sketch(func, mm, gather, machine, form.resident, form.wide, point, form.larger, form.pixels_inside, through)


def choice_of(func: Func, mm: Nest, gather: Nest, machine: Machine, trace: Trace) -> Choice | None:
    """Return (form, values of its holes) of a schedule; None where it is no convolution's."""
    forms = [ConvForm(resident, wide, larger, inside) for resident in ("none", "image", "weight", "both") for wide in (False, True)
             for larger in (("", "image", "weight") if resident == "none" else ("",))
             for inside in ((False, True) if resident == "none" else (False,))]
    point = axes_of(func, mm, gather).point
    for form in forms:
        for through in ways(func, mm, machine) if form.wide or not point else ():
            if (values := solve_holes(sketch_of(func, mm, gather, machine, form, through), trace)) is not None:
                return form, values
    return None
