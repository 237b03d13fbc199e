// Program casts as HIVM for Ascend910B3; 1 block.
// Addresses, flags, loops, slots and cores are those of the program. It can be verified by the vendor's compiler front half (bishengir-opt of ascendnpu-ir 1.2.0).
// It has never run on an NPU. Lost, or not known:
//   Masks and repeats are shapes of views; the tile library of the compiler makes its own instructions of them.
module attributes {hacc.target = #hacc.target<"Ascend910B3">} {
  func.func @casts(%X: memref<200xf16, #hivm.address_space<gm>>, %Y: memref<200xf16, #hivm.address_space<gm>>, %N: memref<200xi8, #hivm.address_space<gm>>)
      attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>, hacc.block_dim = 1 : i64, hivm.func_core_type = #hivm.func_core_type<AIV>} {
    %c0_i64 = arith.constant 0 : i64
    %c512_i64 = arith.constant 512 : i64
    %c1536_i64 = arith.constant 1536 : i64
    %c2048_i64 = arith.constant 2048 : i64
    %c0 = arith.constant 0 : index
    %real_f32 = arith.constant 3.0 : f32
    %x = hivm.hir.pointer_cast(%c0_i64) : memref<256xf16, #hivm.address_space<ub>>
    %f = hivm.hir.pointer_cast(%c512_i64) : memref<256xf32, #hivm.address_space<ub>>
    %y = hivm.hir.pointer_cast(%c1536_i64) : memref<256xf16, #hivm.address_space<ub>>
    %n = hivm.hir.pointer_cast(%c2048_i64) : memref<256xi8, #hivm.address_space<ub>>
    %block_i64 = hivm.hir.get_block_idx -> i64
    %block = arith.index_cast %block_i64 : i64 to index
    //: copy_gm_ub(dst=x[0], src=X[0], bursts=1, length=400, src_gap=0, dst_gap=0)
    %X_2 = memref.reinterpret_cast %X to offset: [0], sizes: [200], strides: [1] : memref<200xf16, #hivm.address_space<gm>> to memref<200xf16, strided<[1], offset: 0>, #hivm.address_space<gm>>
    %x_2 = memref.reinterpret_cast %x to offset: [0], sizes: [200], strides: [1] : memref<256xf16, #hivm.address_space<ub>> to memref<200xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>
    hivm.hir.load ins(%X_2 : memref<200xf16, strided<[1], offset: 0>, #hivm.address_space<gm>>) outs(%x_2 : memref<200xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>)
    hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]  //: set(MTE2, V, 0)
    hivm.hir.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]  //: wait(MTE2, V, 0)
    //: vconv(dst=f[0], src=x[0], lanes=8, repeat=4, dst_blk=1, src_blk=1, dst_rep=8, src_rep=4)
    %f_2 = memref.reinterpret_cast %f to offset: [0], sizes: [200], strides: [1] : memref<256xf32, #hivm.address_space<ub>> to memref<200xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>
    hivm.hir.pipe_barrier[<PIPE_V>]
    hivm.hir.vcast ins(%x_2 : memref<200xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>) outs(%f_2 : memref<200xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>) round_mode = #hivm.round_mode<rint>
    //: vmuls(dst=f[0], src=f[0], scalar=3.0, lanes=8, repeat=4, dst_blk=1, src_blk=1, dst_rep=8, src_rep=8)
    hivm.hir.pipe_barrier[<PIPE_V>]
    hivm.hir.vmul ins(%f_2, %real_f32 : memref<200xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>, f32) outs(%f_2 : memref<200xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>)
    //: vrint(dst=f[0], src=f[0], lanes=8, repeat=4, dst_blk=1, src_blk=1, dst_rep=8, src_rep=8)
    hivm.hir.pipe_barrier[<PIPE_V>]
    hivm.hir.vcast ins(%f_2 : memref<200xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>) outs(%f_2 : memref<200xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>) round_mode = #hivm.round_mode<rint>
    //: vconv(dst=y[0], src=f[0], lanes=8, repeat=4, dst_blk=1, src_blk=1, dst_rep=4, src_rep=8)
    %y_2 = memref.reinterpret_cast %y to offset: [0], sizes: [200], strides: [1] : memref<256xf16, #hivm.address_space<ub>> to memref<200xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>
    hivm.hir.pipe_barrier[<PIPE_V>]
    hivm.hir.vcast ins(%f_2 : memref<200xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>) outs(%y_2 : memref<200xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>) round_mode = #hivm.round_mode<rint>
    //: vconv(dst=n[0], src=y[0], lanes=72, repeat=2, dst_blk=1, src_blk=1, dst_rep=4, src_rep=8)
    %n_2 = memref.reinterpret_cast %n to offset: [0], sizes: [200], strides: [1] : memref<256xi8, #hivm.address_space<ub>> to memref<200xi8, strided<[1], offset: 0>, #hivm.address_space<ub>>
    hivm.hir.pipe_barrier[<PIPE_V>]
    hivm.hir.vcast ins(%y_2 : memref<200xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>) outs(%n_2 : memref<200xi8, strided<[1], offset: 0>, #hivm.address_space<ub>>) round_mode = #hivm.round_mode<trunc>
    hivm.hir.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]  //: set(V, MTE3, 0)
    hivm.hir.wait_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]  //: wait(V, MTE3, 0)
    //: copy_ub_gm(dst=Y[0], src=y[0], bursts=1, length=400, src_gap=0, dst_gap=0)
    %Y_2 = memref.reinterpret_cast %Y to offset: [0], sizes: [200], strides: [1] : memref<200xf16, #hivm.address_space<gm>> to memref<200xf16, strided<[1], offset: 0>, #hivm.address_space<gm>>
    hivm.hir.store ins(%y_2 : memref<200xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>) outs(%Y_2 : memref<200xf16, strided<[1], offset: 0>, #hivm.address_space<gm>>)
    //: copy_ub_gm(dst=N[0], src=n[0], bursts=1, length=200, src_gap=0, dst_gap=0)
    %N_2 = memref.reinterpret_cast %N to offset: [0], sizes: [200], strides: [1] : memref<200xi8, #hivm.address_space<gm>> to memref<200xi8, strided<[1], offset: 0>, #hivm.address_space<gm>>
    hivm.hir.store ins(%n_2 : memref<200xi8, strided<[1], offset: 0>, #hivm.address_space<ub>>) outs(%N_2 : memref<200xi8, strided<[1], offset: 0>, #hivm.address_space<gm>>)
    hivm.hir.pipe_barrier[<PIPE_ALL>]
    return
  }
}
