"""A stand-in for the vendor's compiler and board: Ascend C kernels compiled with g++ and run on the host. It never ran on an NPU.

Calls mean what the public documentation pages say. Where the pages say nothing, calls mean what our instruction set says. Scalar code
issues instructions to the pipes of its core, up to 32 to each. A seed draws the order in which pipes of all blocks run, among the orders
that flags and barriers allow. Each instruction runs whole. Memory that nothing has written holds NaN, or garbage.

A launch ends with a sentence (block, call, line) in these cases:

- An access leaves its memory, its tensor, or the buffers that the arguments reach. An address or a field breaks its rule.
- An access conflicts with one of another pipe that no flag orders. Or it conflicts with one of its own pipe without PipeBarrier. The pipes
  that need PipeBarrier are V, MTE2, MTE3, FIX, and M where two Mmads of less than ten fractals follow each other on one L0C. MTE1 is taken
  to be in order. Vector clocks over the pipes of a core decide it, for every 2 bytes of UB and 32 of the other memories. Global memory is
  checked where the same launch reads it after it wrote it.
- A flag is set twice, left set, or waited for in vain. An id is beyond the product's.
- A call is used that the product or the core does not have. Or it reserves UB that a buffer takes. Or it is not listed as allowed
  beside tensors by address.

A call that a product or a release lacks does not compile. Neither does a call with elements that it does not take.

Our instruction set decides these points, where the pages say otherwise or nothing. Sums of ReduceRepeat and Mmad go from the first term to
the last. Rsqrt and Reciprocal are exact to one rounding. Reals beyond half become infinite. Whole numbers wrap in arithmetic and saturate
in casts. Images past the last position read 0. VREQ8 rounds to the nearest even. Max and Min of NaN are NaN. An Mmad of one row reads L0A
as a row.
"""
