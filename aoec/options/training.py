"""The options that make a training graph of a model."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aoec.base.errors import ParseError
from aoec.options.option import Options, option, options

OPTIMISERS = ("sgd", "adam", "none")
GRADIENT_TYPES = ("fp32", "fp16", "bf16")
LOSSES = ("mse", "cross_entropy")
FP16_LOSS_SCALE = 1024.0  # gradients of 2^-24, the least number of fp16, stand for 2^-34 then


@dataclass(frozen=True)
class Training:
    """What a training graph is made by. `loss`: mse, cross_entropy, either with ":OUTPUT", or the name of an output. `trained`: patterns of
    the names of parameters, all where there are none. `gradients`: results of the model that are gradients already. `loss_scale`: None as
    the precision needs it."""

    loss: str = ""
    optimiser: str = "sgd"
    gradient_type: str = "fp32"
    momentum: float = 0.9
    weight_decay: float = 0.0
    loss_scale: float | None = None
    trained: tuple[str, ...] = ()
    gradients: tuple[str, ...] = ()

    def scale(self, precision: str) -> float:
        """Return the factor of the loss before its gradients are made."""
        return self.loss_scale if self.loss_scale is not None else FP16_LOSS_SCALE if precision == "fp16" else 1.0


def read_share(text: str) -> float:
    """Return a number from 0 to below 1. Raise ParseError where it is not."""
    if not 0 <= (number := read_number(text)) < 1:
        raise ParseError(f"{text!r} is not a number from 0 to below 1")
    return number


def read_number(text: str) -> float:
    """Return a number that is not negative."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ParseError(f"{text[:40]!r} is not a number from 0 up")
    return number


def read_scale(text: str) -> float:
    """Return a number above 0."""
    if not (number := read_number(text)) > 0:
        raise ParseError(f"{text[:40]!r} is not a number above 0")
    return number


def read_names(text: str) -> tuple[str, ...]:
    """Return names between commas."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ParseError(f"{text[:40]!r} is not of the form NAME,NAME")
    return names


@options
class TrainingOptions(Options):
    """How an inference model becomes a training graph, or what of a training graph its gradients are."""

    title = "training"
    loss: str | None = option(
        "--loss", default=None, metavar="mse|cross_entropy|NAME",
        help="compile a step of training. mse: against the input target. cross_entropy: of logits, against whole numbers in the input "
             "labels. Both take the first output, or another: mse:OUTPUT. NAME: an output of the model that is the loss already")
    optimiser: str = option(
        "--optimiser", default="sgd", choices=OPTIMISERS,
        help="with --loss: how parameters are updated: sgd with momentum, adam, or none (default: sgd)")
    momentum: float = option(
        "--momentum", default=0.9, metavar="N", read=read_share, help="with --optimiser sgd: its momentum (default: 0.9)")
    weight_decay: float = option(
        "--weight-decay", default=0.0, metavar="N", read=read_number, help="with --loss: added to each gradient, times its parameter "
        "(default: 0)")
    gradient_type: str = option(
        "--gradient-type", default="fp32", choices=GRADIENT_TYPES, help="with --loss: dtype of gradients as they are sent (default: fp32)")
    loss_scale: float | None = option(
        "--loss-scale", default=None, metavar="N", read=read_scale,
        help=f"with --loss: the loss is multiplied by it, and the optimiser divides by it. Gradients are sent scaled (default: "
             f"{FP16_LOSS_SCALE:g} for fp16, else 1)")
    trained: Sequence[str] = option(
        "--trained", default=(), metavar="NAME,..", read=read_names,
        help="with --loss: train the parameters with these names alone; * stands for any letters")
    gradients: Sequence[str] = option(
        "--gradients", default=(), metavar="NAME,..", read=read_names,
        help="the model is a training graph already, and these of its outputs are gradients (default: those called <parameter>_grad)")

    @property
    def training(self) -> Training | None:
        """Return what a training graph is made by. Return None where none is asked for."""
        if self.loss is None and not self.gradients:
            return None
        return Training(self.loss or "", self.optimiser, self.gradient_type, self.momentum, self.weight_decay, self.loss_scale,
                        tuple(self.trained), tuple(self.gradients))
