"""Words that all results of a device share: where they were made, and how far values differ."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from aoec.jobs.npu.against import Difference


def difference_facts(d: Difference) -> dict[str, Any]:
    """Return a difference as plain values; what is not finite is a text."""
    return {**asdict(d), "relative": d.relative if d.relative < float("inf") else "not a number on one side", "wrong": d.wrong}


def say_difference(d: Mapping[str, Any]) -> str:
    """Return how far a tensor lies from what it should be."""
    return d["relative"] if isinstance(d["relative"], str) else f"{d['relative']:.1e}"


def device_words(facts: Mapping[str, Any]) -> str:
    """Return where times were measured, in words."""
    return f"the stand-in for {facts['soc']}, which is no device" if facts["stand_in"] else f"the device ({facts['soc']})"


def place_words(facts: Mapping[str, Any]) -> str:
    """Return what a device and its CANN are, in words."""
    return f"{facts['soc']} (product {facts['product']}), CANN {facts['cann']}" + ", a stand-in" * facts["stand_in"]
