"""Small networks with their losses, as PyTorch's exporter writes them, and PyTorch's own gradients of their parameters."""
from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as F

OPSET = 18


@dataclass(frozen=True)
class Trained:
    """`proto` has one output, the loss, and holds the parameters as initializers of their own names. `gradients`: PyTorch's."""

    proto: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]
    loss: float


class _Loss(nn.Module):
    """A network and its loss against a target: cross entropy of classes, else the mean square."""

    def __init__(self, network: nn.Module, classes: bool) -> None:
        super().__init__()
        self.network, self.classes = network, classes

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        y = self.network(x)
        if self.classes:
            return -(F.log_softmax(y, dim=-1) * target).sum(-1).mean()
        return ((y - target) ** 2).mean()


def trained(name: str) -> Trained:
    """A network by name, exported with its loss, with PyTorch's gradients. BatchNormalization is as at inference, with statistics of its
    own."""
    torch.manual_seed(0)
    network, x, classes = NETWORKS[name]()
    for m in network.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.2)
            m.running_var.uniform_(0.5, 1.5)
        if isinstance(m, (nn.BatchNorm2d, nn.LayerNorm)):  # each of its own: the exporter writes equal ones once
            nn.init.normal_(m.weight, 1, 0.2)
            nn.init.normal_(m.bias, 0, 0.2)
    whole = _Loss(network, classes).eval()
    with torch.no_grad():
        y = network(x)
    target = torch.softmax(torch.randn_like(y), -1) if classes else torch.randn_like(y)
    loss = whole(x, target)
    loss.backward()
    named = {n: p for n, p in whole.named_parameters() if p.grad is not None}
    out = io.BytesIO()
    torch.onnx.export(whole, (x, target), out, input_names=["x", "target"], output_names=["loss"], opset_version=OPSET, dynamo=False,
                      do_constant_folding=False, training=torch.onnx.TrainingMode.EVAL)
    return Trained(onnx.load_from_string(out.getvalue()), {"x": x.numpy(), "target": target.numpy()},
                   {n: p.detach().numpy() for n, p in named.items()}, {n: p.grad.numpy() for n, p in named.items()}, float(loss))


# ---------------------------------------------------------------- networks

class _Add(nn.Module):
    """What a branch gives, added to what a shortcut does, and what follows."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module | None = None, behind: nn.Module | None = None) -> None:
        super().__init__()
        self.branch, self.shortcut, self.behind = branch, shortcut or nn.Identity(), behind or nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.behind(self.branch(x) + self.shortcut(x))


def _conv_bn(c: int, co: int, k: int, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU) -> list[nn.Module]:
    return [nn.Conv2d(c, co, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(co), *([act()] if act else [])]


def _head(c: int, classes: int = 5) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, classes)]


def _mlp() -> tuple[nn.Module, torch.Tensor, bool]:
    layers = [nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 16), nn.SiLU(), nn.LayerNorm(16), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 5)]
    return nn.Sequential(*layers), torch.randn(6, 12), True


def _lenet() -> tuple[nn.Module, torch.Tensor, bool]:
    layers = [nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
              nn.Linear(16 * 2 * 2, 20), nn.ReLU(), nn.Linear(20, 10)]
    return nn.Sequential(*layers), torch.randn(2, 1, 16, 16), True


def _resnet() -> tuple[nn.Module, torch.Tensor, bool]:
    block = _Add(nn.Sequential(*_conv_bn(8, 4, 1), *_conv_bn(4, 4, 3, 2), *_conv_bn(4, 16, 1, act=None)),
                 nn.Sequential(*_conv_bn(8, 16, 1, 2, act=None)), nn.ReLU())
    layers = [*_conv_bn(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1), block, *_head(16)]
    return nn.Sequential(*layers), torch.randn(2, 3, 30, 30), True


def _mobilenet() -> tuple[nn.Module, torch.Tensor, bool]:
    block = _Add(nn.Sequential(*_conv_bn(8, 24, 1, act=nn.Hardswish), *_conv_bn(24, 24, 5, groups=24, act=nn.ReLU6),
                               *_conv_bn(24, 8, 1, act=None)))
    layers = [*_conv_bn(3, 8, 3, 2, act=nn.Hardswish), block, *_conv_bn(8, 8, 3, 2, groups=8), *_conv_bn(8, 16, 3, groups=4), *_head(16)]
    return nn.Sequential(*layers), torch.randn(2, 3, 16, 16), True


class _Attention(nn.Module):
    """Heads side by side, each of its part of one product for queries, keys and values."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, w = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-1, -2) * (w // self.heads) ** -0.5
        if self.causal:
            scores = scores.masked_fill(torch.ones(s, s, dtype=torch.bool).triu(1), -1e9)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, w))


def _block(width: int, heads: int, causal: bool = False) -> nn.Module:
    mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(approximate="tanh" if causal else "none"),
                        nn.Linear(2 * width, width))
    return nn.Sequential(_Add(nn.Sequential(nn.LayerNorm(width), _Attention(width, heads, causal))), _Add(mlp))


def _encoder() -> tuple[nn.Module, torch.Tensor, bool]:
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), torch.randn(2, 5, 16), False


class _Words(nn.Module):
    """Embeddings of words and places, blocks, and a result for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 16), nn.Embedding(6, 16)
        self.block, self.norm, self.head = _block(16, 2, True), nn.LayerNorm(16), nn.Linear(16, 20, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.block(self.words(x) + self.places(torch.arange(x.shape[1])))))


def _gpt() -> tuple[nn.Module, torch.Tensor, bool]:
    return _Words(), torch.randint(0, 20, (2, 6)), True


class _Last(nn.Module):
    """The results of a recurrent network, and a product with them."""

    def __init__(self, network: nn.Module, width: int) -> None:
        super().__init__()
        self.network, self.head = network, nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.network(x)[0])


def _vit() -> tuple[nn.Module, torch.Tensor, bool]:
    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(3, 16, 4, 4)
            self.token, self.place = nn.Parameter(torch.randn(1, 1, 16)), nn.Parameter(torch.randn(1, 10, 16))
            self.block, self.norm, self.head = _block(16, 2), nn.LayerNorm(16), nn.Linear(16, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows = self.patch(x).flatten(2).transpose(1, 2)
            rows = torch.cat([self.token.expand(len(x), -1, -1), rows], 1) + self.place
            return self.head(self.norm(self.block(rows))[:, 0])
    return Patches(), torch.randn(2, 3, 12, 12), True


def _convnext() -> tuple[nn.Module, torch.Tensor, bool]:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.depth, self.norm = nn.Conv2d(8, 8, 7, padding=3, groups=8), nn.LayerNorm(8, eps=1e-6)
            self.up, self.down, self.scale = nn.Linear(8, 32), nn.Linear(32, 8), nn.Parameter(torch.full((8,), 0.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.down(F.gelu(self.up(self.norm(self.depth(x).permute(0, 2, 3, 1)))))
            return x + (self.scale * y).permute(0, 3, 1, 2)
    return nn.Sequential(nn.Conv2d(3, 8, 4, 4), Block(), nn.Conv2d(8, 12, 2, 2), *_head(12)), torch.randn(2, 3, 32, 32), True


def _unet() -> tuple[nn.Module, torch.Tensor, bool]:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.deep = nn.Sequential(*_conv_bn(2, 6, 3)), nn.Sequential(nn.MaxPool2d(2), *_conv_bn(6, 8, 3))
            self.bottom = nn.Sequential(nn.MaxPool2d(2), *_conv_bn(8, 10, 3))
            self.up, self.join, self.last = nn.ConvTranspose2d(10, 8, 2, 2), nn.Conv2d(16, 6, 3, padding=1), nn.Conv2d(12, 3, 1)
            self.wide = nn.ConvTranspose2d(6, 6, 3, 2, 1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = self.first(x)
            b = self.deep(a)
            c = F.leaky_relu(self.join(torch.cat([self.up(self.bottom(b)), b], 1)), 0.1)
            grown = self.wide(c) + F.interpolate(c, scale_factor=2, mode="nearest")
            return self.last(torch.cat([grown + F.interpolate(c, scale_factor=2, mode="bilinear"), a], 1)).sigmoid()
    return Net(), torch.randn(2, 2, 16, 16), False


NETWORKS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor, bool]]] = {
    "mlp": _mlp, "lenet": _lenet, "resnet": _resnet, "mobilenet": _mobilenet, "encoder": _encoder, "gpt": _gpt, "vit": _vit,
    "convnext": _convnext, "unet": _unet,
    "lstm": lambda: (_Last(nn.LSTM(6, 8, batch_first=True), 8), torch.randn(2, 4, 6), False),
    "gru": lambda: (_Last(nn.GRU(6, 8, batch_first=True, bidirectional=True), 16), torch.randn(2, 4, 6), False)}
