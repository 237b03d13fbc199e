"""Blocks that make pixels out of planes are recognised by their indices, and nothing else is."""
from __future__ import annotations

import pytest

from aoec.ir.func.pixels import pixels_of
from aoec.ir.func.tir import Block, blocks
from aoec.ir.text.parse import parse_func


def block(value: str, index: str = "u, l", shape: str = "9, 16") -> Block:
    func = parse_func(f"func f(X: fp16[3, 36]) -> (Y: fp16[{shape}]) {{ for u in 9 {{ for l in 16 {{ b: Y[{index}] = {value} }} }} }}")
    return blocks(func.body)[0][0]


@pytest.mark.parametrize("value, channels", [
    ("X[l % 4, u * 4 + l // 4]", 4), ("select(l % 4 < 3, X[l % 4, u * 4 + l // 4], 0.0)", 3), ("X[l % 4, (u * 16 + l) // 4]", 4)])
def test_pixels_out_of_planes(value: str, channels: int) -> None:
    made = pixels_of(block(value))
    assert made is not None and (made.each, made.channels, made.source.buffer, made.target.buffer) == (4, channels, "X", "Y")


@pytest.mark.parametrize("value", [
    "X[0, u * 4 + l // 4]", "X[l // 4, u * 4 + l % 4]", "X[l % 4, u * 4 + l // 8]", "X[l % 4, u]", "X[l % 4, u * 8 + l // 4]",
    "X[l % 4, u * 4 + 4 + l // 4]", "X[l % 3, u * 5 + l // 3]", "X[u % 4, u * 4 + l // 4]", "exp(X[0, l])",
    "select(l % 4 < 3, X[l % 4, u * 4 + l // 4], 1.0)",
    "select(l % 8 < 3, X[l % 4, u * 4 + l // 4], 0.0)", "select(u < 3, X[l % 4, u * 4 + l // 4], 0.0)"])
def test_others_are_none(value: str) -> None:
    assert pixels_of(block(value)) is None


def test_a_target_in_another_order_is_none() -> None:
    assert pixels_of(block("X[l % 4, u * 4 + l // 4]", "l, u", "16, 9")) is None
