"""A stand-in for the vendor's compiler and board: Ascend C kernels compiled with g++ and run on the host. It never ran on an NPU.

Calls mean what the public documentation pages say; where these are silent, what our instruction set says. Scalar code issues
instructions to the pipes of its core, up to 32 to each. Pipes of all blocks run in an order that a seed draws among those that flags and
barriers allow, each instruction whole. Memory that nothing has written holds NaN, or garbage.

A launch ends with a sentence (block, call, line) where

- an access leaves its memory, its tensor, or the buffers that the arguments reach; where an address or a field breaks its rule;
- an access meets one of another pipe that no flag orders, or of its own pipe without PipeBarrier: V, MTE2, MTE3, FIX, and M where two Mmads
  of less than ten fractals follow each other on one L0C. MTE1 is taken to be in order. Vector clocks over the pipes of a core decide it,
  for every 2 bytes of UB and 32 of the other memories. Of global memory that is looked at which the same launch reads behind its write;
- a flag is set twice, left set, or waited for in vain; an id is beyond the product's;
- a call is used that the product or the core has not, that keeps UB which a buffer takes, or that is not listed beside tensors by address.

A call that a product or a release lacks, or elements that it does not take, do not compile.

Taken as our instruction set has it, where pages say otherwise or nothing: sums of ReduceRepeat and Mmad go from the first term to the last;
Rsqrt and Reciprocal are exact to one rounding; reals beyond half become infinite; whole numbers wrap in arithmetic and saturate in casts;
images past the last position read 0; VREQ8 rounds to the nearest even; Max and Min of NaN are NaN. An Mmad of one row reads L0A as a row.
"""
