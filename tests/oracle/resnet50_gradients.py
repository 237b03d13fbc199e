"""ResNet-50's gradients by its architecture, not by a model's file."""
from __future__ import annotations

from functools import cache

import numpy as np


@cache
def resnet50() -> tuple[list[int], list[float]]:
    """Bytes of gradients in fp32 in backward order, and their shares of FLOPs of the layers up to each one."""
    layers: list[tuple[int, int]] = []  # parameters, FLOPs, in the order of the forward pass

    def convolve(inputs: int, outputs: int, side: int, height: int) -> None:
        layers.append((inputs * outputs * side * side, 2 * inputs * outputs * side * side * height * height))
        layers.extend(((outputs, 4 * outputs * height * height), (outputs, 2 * outputs * height * height)))  # batch normalisation

    convolve(3, 64, 7, 112)
    inputs, height = 64, 56
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            out = height // 2 if stage and not block else height
            convolve(inputs, width, 1, height)
            convolve(width, width, 3, out)
            convolve(width, 4 * width, 1, out)
            if not block:
                convolve(inputs, 4 * width, 1, out)
            inputs, height = 4 * width, out
    layers += [(2048 * 1000, 2 * 2048 * 1000), (1000, 0)]
    flops = np.cumsum([f for _, f in reversed(layers)])
    return [4 * p for p, _ in reversed(layers)], (flops / flops[-1]).tolist()
