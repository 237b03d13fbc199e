// Program elementwise as HIVM for Ascend910B3; 2 blocks.
// Addresses, flags, loops, slots and cores are those of the program. It can be verified by the vendor's compiler front half (bishengir-opt of ascendnpu-ir 1.2.0).
// It has never run on an NPU. Lost, or not known:
//   Masks and repeats are shapes of views; the tile library of the compiler makes its own instructions of them.
module attributes {hacc.target = #hacc.target<"Ascend910B3">} {
  func.func @elementwise(%X: memref<2000xf16, #hivm.address_space<gm>>, %Z: memref<2000xf16, #hivm.address_space<gm>>, %Y: memref<2000xf16, #hivm.address_space<gm>>)
      attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>, hacc.block_dim = 2 : i64, hivm.func_core_type = #hivm.func_core_type<AIV>} {
    %c0_i64 = arith.constant 0 : i64
    %c1024_i64 = arith.constant 1024 : i64
    %c2048_i64 = arith.constant 2048 : i64
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c1000 = arith.constant 1000 : index
    %c256 = arith.constant 256 : index
    %real_f16 = arith.constant 2.0 : f16
    %x = hivm.hir.pointer_cast(%c0_i64) : memref<512xf16, #hivm.address_space<ub>>
    %z = hivm.hir.pointer_cast(%c1024_i64) : memref<512xf16, #hivm.address_space<ub>>
    %y = hivm.hir.pointer_cast(%c2048_i64) : memref<512xf16, #hivm.address_space<ub>>
    %block_i64 = hivm.hir.get_block_idx -> i64
    %block = arith.index_cast %block_i64 : i64 to index
    scf.for %d = %c0 to %c2 step %c1 {  // for d in 2
      %v = arith.index_cast %d : index to i64
      hivm.hir.set_flag[<PIPE_V>, <PIPE_MTE2>, %v]  //: set(V, MTE2, d)
      hivm.hir.set_flag[<PIPE_MTE3>, <PIPE_V>, %v]  //: set(MTE3, V, d)
    }
    %t_end:2 = scf.for %t = %c0 to %c4 step %c1 iter_args(%i = %c0, %o = %c0) -> (index, index) {  // for t in 4
      %v_2 = arith.index_cast %i : index to i64
      hivm.hir.wait_flag[<PIPE_V>, <PIPE_MTE2>, %v_2]  //: wait(V, MTE2, i)
      //: copy_gm_ub(dst=x.i[0], src=X[core * 1000 + t * 256], bursts=1, length=min(256, 1000 - t * 256) * 2, src_gap=0, dst_gap=0)
      %v_3 = arith.muli %block, %c1000 : index
      %v_4 = arith.muli %t, %c256 : index
      %v_5 = arith.addi %v_3, %v_4 : index
      %v_6 = arith.subi %c1000, %v_4 : index
      %v_7 = arith.minsi %v_6, %c256 : index
      %X_2 = memref.reinterpret_cast %X to offset: [%v_5], sizes: [%v_7], strides: [1] : memref<2000xf16, #hivm.address_space<gm>> to memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<gm>>
      %v_8 = arith.muli %i, %c256 : index
      %x_2 = memref.reinterpret_cast %x to offset: [%v_8], sizes: [%v_7], strides: [1] : memref<512xf16, #hivm.address_space<ub>> to memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>
      hivm.hir.load ins(%X_2 : memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<gm>>) outs(%x_2 : memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>)
      //: copy_gm_ub(dst=z.i[0], src=Z[core * 1000 + t * 256], bursts=1, length=min(256, 1000 - t * 256) * 2, src_gap=0, dst_gap=0)
      %Z_2 = memref.reinterpret_cast %Z to offset: [%v_5], sizes: [%v_7], strides: [1] : memref<2000xf16, #hivm.address_space<gm>> to memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<gm>>
      %z_2 = memref.reinterpret_cast %z to offset: [%v_8], sizes: [%v_7], strides: [1] : memref<512xf16, #hivm.address_space<ub>> to memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>
      hivm.hir.load ins(%Z_2 : memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<gm>>) outs(%z_2 : memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>)
      hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_V>, %v_2]  //: set(MTE2, V, i)
      hivm.hir.wait_flag[<PIPE_MTE2>, <PIPE_V>, %v_2]  //: wait(MTE2, V, i)
      %v_9 = arith.index_cast %o : index to i64
      hivm.hir.wait_flag[<PIPE_MTE3>, <PIPE_V>, %v_9]  //: wait(MTE3, V, o)
      //: vmuls(dst=x.i[0], src=x.i[0], scalar=2.0, lanes=min(1000 - t * 256, 256) - 128, repeat=2, dst_blk=1, src_blk=1, dst_rep=8, src_rep=8)
      hivm.hir.pipe_barrier[<PIPE_V>]
      hivm.hir.vmul ins(%x_2, %real_f16 : memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>, f16) outs(%x_2 : memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>)
      //: vadd(dst=y.o[0], src0=x.i[0], src1=z.i[0], lanes=min(1000 - t * 256, 256) - 128, repeat=2, dst_blk=1, src0_blk=1, src1_blk=1, dst_rep=8, src0_rep=8, src1_rep=8)
      %v_10 = arith.muli %o, %c256 : index
      %y_2 = memref.reinterpret_cast %y to offset: [%v_10], sizes: [%v_7], strides: [1] : memref<512xf16, #hivm.address_space<ub>> to memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>
      hivm.hir.pipe_barrier[<PIPE_V>]
      hivm.hir.vadd ins(%x_2, %z_2 : memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>, memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>) outs(%y_2 : memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>)
      hivm.hir.set_flag[<PIPE_V>, <PIPE_MTE2>, %v_2]  //: set(V, MTE2, i)
      //: vrelu(dst=y.o[0], src=y.o[0], lanes=min(1000 - t * 256, 256) - 128, repeat=2, dst_blk=1, src_blk=1, dst_rep=8, src_rep=8)
      hivm.hir.pipe_barrier[<PIPE_V>]
      hivm.hir.vrelu ins(%y_2 : memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>) outs(%y_2 : memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>)
      hivm.hir.set_flag[<PIPE_V>, <PIPE_MTE3>, %v_9]  //: set(V, MTE3, o)
      hivm.hir.wait_flag[<PIPE_V>, <PIPE_MTE3>, %v_9]  //: wait(V, MTE3, o)
      //: copy_ub_gm(dst=Y[core * 1000 + t * 256], src=y.o[0], bursts=1, length=min(256, 1000 - t * 256) * 2, src_gap=0, dst_gap=0)
      %Y_2 = memref.reinterpret_cast %Y to offset: [%v_5], sizes: [%v_7], strides: [1] : memref<2000xf16, #hivm.address_space<gm>> to memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<gm>>
      hivm.hir.store ins(%y_2 : memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>) outs(%Y_2 : memref<?xf16, strided<[1], offset: ?>, #hivm.address_space<gm>>)
      hivm.hir.set_flag[<PIPE_MTE3>, <PIPE_V>, %v_9]  //: set(MTE3, V, o)
      %v_11 = arith.addi %i, %c1 : index
      %i_2 = arith.remui %v_11, %c2 : index
      %v_12 = arith.addi %o, %c1 : index
      %o_2 = arith.remui %v_12, %c2 : index
      scf.yield %i_2, %o_2 : index, index
    }
    scf.for %e = %c0 to %c2 step %c1 {  // for e in 2
      %v_13 = arith.index_cast %e : index to i64
      hivm.hir.wait_flag[<PIPE_V>, <PIPE_MTE2>, %v_13]  //: wait(V, MTE2, e)
      hivm.hir.wait_flag[<PIPE_MTE3>, <PIPE_V>, %v_13]  //: wait(MTE3, V, e)
    }
    hivm.hir.pipe_barrier[<PIPE_ALL>]
    return
  }
}
