"""Who plays: our strategies, and their peers as they come, each told what is legal as far as its interface takes it.

A player plays until the game is over, or until it has nothing more to propose.

| peer | told what is legal by | does with the rest |
|---|---|---|
| Kernel Tuner's genetic, its Bayesian | its search space, made of the list | nothing: it proposes legal configurations only |
| optuna's TPE and NSGA-II | no interface: a proposal is moved to the nearest legal configuration | that one is measured and told |
| nevergrad | `register_cheap_constraint` | what still comes is told a time worse than all, at no cost |
| scikit-optimize | `space_constraint` | the same |
"""
from __future__ import annotations

import importlib
import logging
import random
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aoec.search.space.pool import Listed
from aoec.search.strategies.strategies import STRATEGIES, make
from bench.spaces.case import Case, Game

Player = Callable[[Case, Game, int], None]
TICKS = 1e6  # a ms: our strategies take integers


def ours(name: str) -> Player:
    """Return one of our strategies, with the list of legal configurations as its pool."""
    def play(case: Case, game: Game, seed: int) -> None:
        strategy = make(name, case.space, seed, Listed(case.space, case.ranks))
        while batch := strategy.ask(64):
            times = [game.measure(case.rows[values]) for _, values in batch]
            strategy.tell(batch, [None if t is None else round(t * TICKS) for t in times])
    return play


def chance(case: Case, game: Game, seed: int) -> None:
    for row in np.random.default_rng(seed).permutation(len(case.times_ms)).tolist():
        game.measure(row)


class Runner:
    """What a strategy of Kernel Tuner measures with."""

    dev = type("Device", (), {"max_threads": 1 << 30})()

    def __init__(self, case: Case, game: Game) -> None:
        self.case, self.game = case, game

    def add_strategy_time(self, seconds: float) -> None:
        """Ignore Kernel Tuner's own measure of its time. Ours is taken outside."""

    def run(self, configurations: list[tuple[int, ...]], options: object) -> list[dict[str, Any]]:
        from kernel_tuner.util import RuntimeFailedConfig
        out = []
        for c in configurations:
            time = self.game.measure(self.case.rows[tuple(c)])
            failed = {"time": RuntimeFailedConfig(), "__error__": RuntimeFailedConfig()}
            out.append(dict(zip(self.case.names, c)) | (failed if time is None else {"time": time}))
        return out


class Budget:
    """Kernel Tuner's account of a budget; the game ends by itself."""

    time_limit = None

    def __init__(self, game: Game) -> None:
        self.game = game

    def is_done(self) -> bool:
        return False

    def raise_exception_if_done(self) -> None:
        """Do nothing. The game itself ends when the budget is used."""

    def get_fraction_consumed(self) -> float:
        return len(self.game.seen) / self.game.budget

    def add_evaluations(self, count: int) -> None:
        """Do nothing. The game counts evaluations."""

    def add_time(self, **seconds: float) -> None:
        """Do nothing. The game counts measures, and no times."""


def kernel_tuner(strategy: str) -> Player:
    """Return a strategy of Kernel Tuner with its defaults."""
    def play(case: Case, game: Game, seed: int) -> None:
        from kernel_tuner.interface import Options
        from kernel_tuner.searchspace import Searchspace
        random.seed(seed)
        np.random.seed(seed)
        parameters = {n: list(c) for n, c in zip(case.names, case.choices)}
        listed = {str(i): dict(zip(case.names, values)) for i, values in enumerate(case.values.tolist())}
        space = Searchspace(None, None, None, from_cache={"tune_params": parameters, "cache": listed})
        options = Options(dict(strategy_options=Options({"max_fevals": game.budget}), budget=Budget(game), objective=["time"],
                               objective_higher_is_better=[False], verbose=False, cache={}, metrics=None, tune_params=parameters))
        importlib.import_module(f"kernel_tuner.strategies.{strategy}").tune(space, Runner(case, game), options)
    return play


def optuna(sampler: Callable[[Any, int], Any]) -> Player:
    """Return a sampler of optuna, a parameter an ordered integer: the place of a value among the parameter's."""
    def play(case: Case, game: Game, seed: int) -> None:
        import optuna as package
        package.logging.set_verbosity(package.logging.ERROR)
        study = package.create_study(sampler=sampler(package.samplers, seed))
        while True:
            trial = study.ask()
            values = tuple(c[trial.suggest_int(n, 0, len(c) - 1)] for n, c in zip(case.names, case.choices))
            time = game.measure(nearest(case, values))
            study.tell(trial, worse(case) if time is None else time)
    return play


def nearest(case: Case, values: tuple[int, ...]) -> int:
    """Return the row that differs from a proposal in the fewest parameters, of equals the first."""
    return case.rows[values] if values in case.rows else int((case.values != values).sum(axis=1).argmin())


def measured(case: Case, game: Game, values: tuple[int, ...]) -> float | None:
    """Return the time of a proposal. Return None where it is not legal or fails."""
    if values not in case.rows:
        game.refuse()
        return None
    return game.measure(case.rows[values])


def worse(case: Case) -> float:
    """Return a time above all, for peers that must be told a number."""
    return 2 * float(np.nanmax(case.times_ms))


def nevergrad(case: Case, game: Game, seed: int) -> None:
    import nevergrad as package
    choices = package.p.Instrumentation(*[package.p.TransitionChoice(list(c)) for c in case.choices])
    choices.random_state = np.random.RandomState(seed)

    def is_legal(given: tuple[tuple[int, ...], dict[str, int]]) -> bool:
        return tuple(given[0]) in case.rows
    choices.register_cheap_constraint(is_legal)
    optimizer = package.optimizers.registry["DiscreteOnePlusOne"](parametrization=choices, budget=100 * game.budget)
    while True:
        asked = optimizer.ask()
        time = measured(case, game, tuple(int(v) for v in asked.args))
        optimizer.tell(asked, worse(case) if time is None else time)


def skopt(case: Case, game: Game, seed: int) -> None:
    from skopt import Optimizer
    from skopt.space import Integer
    def is_legal(places: list[int]) -> bool:
        return tuple(c[p] for c, p in zip(case.choices, places)) in case.rows
    optimizer = Optimizer([Integer(0, len(c) - 1) for c in case.choices], "ET", random_state=seed, space_constraint=is_legal)
    while True:
        asked = optimizer.ask()
        time = measured(case, game, tuple(c[p] for c, p in zip(case.choices, asked)))
        optimizer.tell(asked, worse(case) if time is None else time)


PEERS: Mapping[str, tuple[str, Player]] = {
    "random": ("", chance), "kt_genetic": ("kernel_tuner", kernel_tuner("genetic_algorithm")),
    "kt_bayes": ("kernel_tuner", kernel_tuner("bayes_opt")),
    "optuna_tpe": ("optuna", optuna(lambda s, seed: s.TPESampler(seed=seed, multivariate=True))),
    "optuna_nsga2": ("optuna", optuna(lambda s, seed: s.NSGAIISampler(seed=seed, population_size=20))),
    "nevergrad": ("nevergrad", nevergrad), "skopt": ("skopt", skopt)}  # name -> the package it needs, and what plays
OURS = {name: ours(name) for name in STRATEGIES if name not in ("exhaustive", "random")}


def player(name: str) -> Player | None:
    """Return who has that name, its packages imported. Return None where one that it needs is not installed."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    package, play = ("sklearn.ensemble", OURS[name]) if name in OURS else PEERS[name]
    if package:
        try:
            importlib.import_module(package)
        except ImportError:
            return None
    return play
