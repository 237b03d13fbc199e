"""A network while it grows: the layers that architectures are written in. Weights hold zeros: their values do not matter to time."""
from __future__ import annotations

from math import prod

from aoec.ir.graph.graph import Graph
from bench.cases.draft import Net


class Model(Net):
    """A network while it grows."""

    # ------------------------------------------------------------ images

    def conv(self, x: str, filters: int, kernel: int, stride: int = 1, group: int = 1, act: str = "relu", pad: int = -1,
             dilation: int = 1) -> str:
        """Add a convolution with bias, and its activation. Where no padding is given, it keeps the size."""
        before = kernel // 2 * dilation if pad < 0 else pad
        w = self.zeros("w", (filters, self.shape(x)[1] // group, kernel, kernel))
        b = self.zeros("b", (filters,), "fp32")
        y = self.node("conv2d", [x, w, b], stride=(stride,) * 2, pad=(before,) * 4, dilation=(dilation,) * 2, group=group)
        return self.active(y, act)

    def active(self, x: str, act: str) -> str:
        """Return the tensor through an activation by its usual name; itself where there is none."""
        if act == "relu6":
            return self.node("clip", [x], lo=0.0, hi=6.0)
        if act == "leaky":
            return self.node("leaky_relu", [x], alpha=0.1)
        return self.node(act, [x]) if act else x

    def pool(self, x: str, kernel: int, stride: int, pad: int, ceil: int = 0) -> str:
        """Add a maximum over windows. `ceil` adds rows and columns of padding at the end."""
        pads = (pad, pad, pad + ceil, pad + ceil)
        return self.node("max_pool", [x], kernel=(kernel, kernel), stride=(stride, stride), pad=pads, dilation=(1, 1))

    def up(self, x: str) -> str:
        """Return every pixel twice down and across."""
        return self.node("upsample", [x], scale=(2, 2))

    def unit(self, x: str) -> str:
        """Return the channels of each pixel over their length."""
        squares = self.node("reduce_sum", [self.node("mul", [x, x])], axes=(1,))
        return self.node("mul", [x, self.node("rsqrt", [self.node("adds", [squares], scalar=1e-10)])])

    def classified(self, x: str) -> Graph:
        """Add the mean over the image, a linear layer, and the result."""
        return self.graph(self.dense(self.rows(self.node("global_avg_pool", [x])), 1000))

    # ------------------------------------------------------------ rows

    def dense(self, x: str, features: int, act: str = "") -> str:
        """Add a linear layer on rows."""
        y = self.node("matmul", [x, self.zeros("w", (self.shape(x)[1], features)), self.zeros("b", (features,), "fp32")])
        return self.active(y, act)

    def shaped(self, x: str, *shape: int) -> str:
        return self.node("reshape", [x], shape=shape)

    def turned(self, x: str, *perm: int) -> str:
        return self.node("transpose", [x], perm=perm)

    def rows(self, x: str) -> str:
        """Return the tensor as [batch, features]."""
        n, *rest = self.shape(x)
        return self.shaped(x, n, prod(rest))

    def normed(self, x: str) -> str:
        """Add a layer normalisation of rows, with scale and shift."""
        width = self.shape(x)[-1]
        given = [x, self.zeros("scale", (width,)), self.zeros("shift", (width,))]
        return self.node("layer_norm", given, epsilon=1e-12)

    def attention(self, x: str, batch: int, heads: int, mask: str = "") -> str:
        """Add attention of rows [batch * sequence, width] to each other, `mask` added to the scores. It is three products, a split into
        heads, products of each head, softmax, a join of the heads, and a product."""
        rows, width = self.shape(x)
        apart = batch, rows // batch, heads, width // heads
        q, k, v = (self.turned(self.shaped(self.dense(x, width), *apart), 0, 2, 1, 3) for _ in range(3))
        scores = self.node("muls", [self.node("matmul", [q, k], trans_b=1)], scalar=(width // heads) ** -0.5)
        share = self.node("softmax", [self.node("add", [scores, mask]) if mask else scores], axis=3)
        return self.dense(self.shaped(self.turned(self.node("matmul", [share, v]), 0, 2, 1, 3), rows, width), width)
