// Program two_streams as HIVM for Ascend910B3; 1 block.
// Addresses, flags, loops, slots and cores are those of the program. It can be verified by the vendor's compiler front half (bishengir-opt of ascendnpu-ir 1.2.0).
// It has never run on an NPU. Lost, or not known:
//   Masks and repeats are shapes of views; the tile library of the compiler makes its own instructions of them.
//   The split over L0A and L0B, their slots, and the flags between MTE1 and M are the library's own (mmadL1 takes tiles of L1). UnitFlag is off. Whether the library reads a tile of L1 by its strides is not known; those of one tile in one buffer are whole.
module attributes {hacc.target = #hacc.target<"Ascend910B3">} {
  func.func @two_streams_mix_aic(%ffts: i64 {hacc.arg_type = #hacc.arg_type<ffts_base_address>}, %A: memref<5120xf16, #hivm.address_space<gm>>, %B: memref<1024xf16, #hivm.address_space<gm>>, %T: memref<2048xf32, #hivm.address_space<gm>>, %Y: memref<5120xf32, #hivm.address_space<gm>>)
      attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>, hacc.block_dim = 1 : i64, hivm.func_core_type = #hivm.func_core_type<AIC>, hivm.part_of_mix, mix_mode = "mix"} {
    %c0_i64 = arith.constant 0 : i64
    %c2048_i64 = arith.constant 2048 : i64
    %c0 = arith.constant 0 : index
    %c5 = arith.constant 5 : index
    %c1 = arith.constant 1 : index
    %c1024 = arith.constant 1024 : index
    %yes = arith.constant true
    %c32 = arith.constant 32 : index
    %c2 = arith.constant 2 : index
    %A_L1 = hivm.hir.pointer_cast(%c0_i64) : memref<1024xf16, #hivm.address_space<cbuf>>
    %B_L1 = hivm.hir.pointer_cast(%c2048_i64) : memref<1024xf16, #hivm.address_space<cbuf>>
    %C = hivm.hir.pointer_cast(%c0_i64) : memref<1024xf32, #hivm.address_space<cc>>
    hivm.hir.set_ffts_base_addr %ffts
    %block_i64 = hivm.hir.get_block_idx -> i64
    %block = arith.index_cast %block_i64 : i64 to index
    //: copy_gm_l1_nd2nz(dst=B_L1[0], src=B[0], rows=32, cols=32, src_stride=32, dst_rows=32)
    %B_2 = memref.reinterpret_cast %B to offset: [0], sizes: [32, 32], strides: [32, 1] : memref<1024xf16, #hivm.address_space<gm>> to memref<32x32xf16, strided<[32, 1], offset: 0>, #hivm.address_space<gm>>
    %B_L1_2 = memref.reinterpret_cast %B_L1 to offset: [0], sizes: [2, 2, 16, 16], strides: [512, 256, 16, 1] : memref<1024xf16, #hivm.address_space<cbuf>> to memref<2x2x16x16xf16, strided<[512, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>
    hivm.hir.nd2nz {dst_continuous} ins(%B_2 : memref<32x32xf16, strided<[32, 1], offset: 0>, #hivm.address_space<gm>>) outs(%B_L1_2 : memref<2x2x16x16xf16, strided<[512, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>)
    hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_MTE1>, <EVENT_ID1>]  //: set(MTE2, MTE1, 1)
    hivm.hir.wait_flag[<PIPE_MTE2>, <PIPE_MTE1>, <EVENT_ID1>]  //: wait(MTE2, MTE1, 1)
    hivm.hir.set_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID0>]  //: set(MTE1, MTE2, 0)
    hivm.hir.set_flag[<PIPE_FIX>, <PIPE_M>, <EVENT_ID0>]  //: set(FIXP, M, 0)
    %mt_end = scf.for %mt = %c0 to %c5 step %c1 iter_args(%r = %c0) -> (index) {  // for mt in 5
      hivm.hir.wait_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID0>]  //: wait(MTE1, MTE2, 0)
      //: copy_gm_l1_nd2nz(dst=A_L1[0], src=A[mt * 1024], rows=32, cols=32, src_stride=32, dst_rows=32)
      %v = arith.muli %mt, %c1024 : index
      %A_2 = memref.reinterpret_cast %A to offset: [%v], sizes: [32, 32], strides: [32, 1] : memref<5120xf16, #hivm.address_space<gm>> to memref<32x32xf16, strided<[32, 1], offset: ?>, #hivm.address_space<gm>>
      %A_L1_2 = memref.reinterpret_cast %A_L1 to offset: [0], sizes: [2, 2, 16, 16], strides: [512, 256, 16, 1] : memref<1024xf16, #hivm.address_space<cbuf>> to memref<2x2x16x16xf16, strided<[512, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>
      hivm.hir.nd2nz {dst_continuous} ins(%A_2 : memref<32x32xf16, strided<[32, 1], offset: ?>, #hivm.address_space<gm>>) outs(%A_L1_2 : memref<2x2x16x16xf16, strided<[512, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>)
      hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_MTE1>, <EVENT_ID0>]  //: set(MTE2, MTE1, 0)
      hivm.hir.wait_flag[<PIPE_MTE2>, <PIPE_MTE1>, <EVENT_ID0>]  //: wait(MTE2, MTE1, 0)
      hivm.hir.wait_flag[<PIPE_FIX>, <PIPE_M>, <EVENT_ID0>]  //: wait(FIXP, M, 0)
      //: mmad(dst=C[0], a=A_L0A[0], b=B_L0B[0], m=32, n=32, k=32, init=1)
      %C_2 = memref.reinterpret_cast %C to offset: [0], sizes: [2, 2, 16, 16], strides: [512, 256, 16, 1] : memref<1024xf32, #hivm.address_space<cc>> to memref<2x2x16x16xf32, strided<[512, 256, 16, 1], offset: 0>, #hivm.address_space<cc>>
      hivm.hir.mmadL1 ins(%A_L1_2, %B_L1_2, %yes, %c32, %c32, %c32 : memref<2x2x16x16xf16, strided<[512, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>, memref<2x2x16x16xf16, strided<[512, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>, i1, index, index, index) outs(%C_2 : memref<2x2x16x16xf32, strided<[512, 256, 16, 1], offset: 0>, #hivm.address_space<cc>>)
      hivm.hir.set_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID0>]  //: set(MTE1, MTE2, 0)
      hivm.hir.set_flag[<PIPE_M>, <PIPE_FIX>, <EVENT_ID0>]  //: set(M, FIXP, 0)
      hivm.hir.wait_flag[<PIPE_M>, <PIPE_FIX>, <EVENT_ID0>]  //: wait(M, FIXP, 0)
      hivm.hir.sync_block_wait[<CUBE>, <PIPE_MTE2>, <PIPE_FIX>] flag = 1  //: cross_wait(FIXP, vec, 1)
      //: fixpipe_nd(dst=T[r * 1024], src=C[0], m=32, n=32, src_rows=32, dst_stride=32, relu=0)
      %v_2 = arith.muli %r, %c1024 : index
      %T_2 = memref.reinterpret_cast %T to offset: [%v_2], sizes: [32, 32], strides: [32, 1] : memref<2048xf32, #hivm.address_space<gm>> to memref<32x32xf32, strided<[32, 1], offset: ?>, #hivm.address_space<gm>>
      hivm.hir.fixpipe {dma_mode = #hivm.dma_mode<nz2nd>} ins(%C_2 : memref<2x2x16x16xf32, strided<[512, 256, 16, 1], offset: 0>, #hivm.address_space<cc>>) outs(%T_2 : memref<32x32xf32, strided<[32, 1], offset: ?>, #hivm.address_space<gm>>)
      hivm.hir.sync_block_set[<CUBE>, <PIPE_FIX>, <PIPE_MTE2>] flag = 0 ffts_base_addr = %ffts  //: cross_set(FIXP, vec, 0)
      hivm.hir.set_flag[<PIPE_FIX>, <PIPE_M>, <EVENT_ID0>]  //: set(FIXP, M, 0)
      %v_3 = arith.addi %r, %c1 : index
      %r_2 = arith.remui %v_3, %c2 : index
      scf.yield %r_2 : index
    }
    hivm.hir.wait_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID0>]  //: wait(MTE1, MTE2, 0)
    hivm.hir.wait_flag[<PIPE_FIX>, <PIPE_M>, <EVENT_ID0>]  //: wait(FIXP, M, 0)
    scf.for %e = %c0 to %c2 step %c1 {  // for e in 2
      hivm.hir.sync_block_wait[<CUBE>, <PIPE_MTE2>, <PIPE_FIX>] flag = 1  //: cross_wait(FIXP, vec, 1)
    }
    hivm.hir.pipe_barrier[<PIPE_ALL>]
    return
  }
  func.func @two_streams_mix_aiv(%ffts: i64 {hacc.arg_type = #hacc.arg_type<ffts_base_address>}, %A: memref<5120xf16, #hivm.address_space<gm>>, %B: memref<1024xf16, #hivm.address_space<gm>>, %T: memref<2048xf32, #hivm.address_space<gm>>, %Y: memref<5120xf32, #hivm.address_space<gm>>)
      attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>, hacc.block_dim = 2 : i64, hivm.func_core_type = #hivm.func_core_type<AIV>, hivm.part_of_mix, mix_mode = "mix"} {
    %c0_i64 = arith.constant 0 : i64
    %c2_i64 = arith.constant 2 : i64
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    %c1024 = arith.constant 1024 : index
    %c512 = arith.constant 512 : index
    %u = hivm.hir.pointer_cast(%c0_i64) : memref<1024xf32, #hivm.address_space<ub>>
    hivm.hir.set_ffts_base_addr %ffts
    %block_i64 = hivm.hir.get_block_idx -> i64
    %sub_block_i64 = hivm.hir.get_sub_block_idx -> i64
    %v = arith.muli %block_i64, %c2_i64 : i64
    %v_2 = arith.addi %v, %sub_block_i64 : i64
    %block = arith.index_cast %v_2 : i64 to index
    scf.for %d = %c0 to %c2 step %c1 {  // for d in 2
      hivm.hir.sync_block_set[<VECTOR>, <PIPE_MTE2>, <PIPE_FIX>] flag = 1 ffts_base_addr = %ffts  //: cross_set(MTE2, cube, 1)
      %v_3 = arith.index_cast %d : index to i64
      hivm.hir.set_flag[<PIPE_MTE3>, <PIPE_MTE2>, %v_3]  //: set(MTE3, MTE2, d)
    }
    %t_end = scf.for %t = %c0 to %c5 step %c1 iter_args(%s = %c0) -> (index) {  // for t in 5
      %v_4 = arith.index_cast %s : index to i64
      hivm.hir.wait_flag[<PIPE_MTE3>, <PIPE_MTE2>, %v_4]  //: wait(MTE3, MTE2, s)
      hivm.hir.sync_block_wait[<VECTOR>, <PIPE_FIX>, <PIPE_MTE2>] flag = 0  //: cross_wait(MTE2, cube, 0)
      //: copy_gm_ub(dst=u.s[0], src=T[s * 1024 + v * 512], bursts=1, length=2048, src_gap=0, dst_gap=0)
      %v_5 = arith.muli %s, %c1024 : index
      %v_6 = arith.muli %block, %c512 : index
      %v_7 = arith.addi %v_5, %v_6 : index
      %T_2 = memref.reinterpret_cast %T to offset: [%v_7], sizes: [512], strides: [1] : memref<2048xf32, #hivm.address_space<gm>> to memref<512xf32, strided<[1], offset: ?>, #hivm.address_space<gm>>
      %v_8 = arith.muli %s, %c512 : index
      %u_2 = memref.reinterpret_cast %u to offset: [%v_8], sizes: [512], strides: [1] : memref<1024xf32, #hivm.address_space<ub>> to memref<512xf32, strided<[1], offset: ?>, #hivm.address_space<ub>>
      hivm.hir.load ins(%T_2 : memref<512xf32, strided<[1], offset: ?>, #hivm.address_space<gm>>) outs(%u_2 : memref<512xf32, strided<[1], offset: ?>, #hivm.address_space<ub>>)
      hivm.hir.sync_block_set[<VECTOR>, <PIPE_MTE2>, <PIPE_FIX>] flag = 1 ffts_base_addr = %ffts  //: cross_set(MTE2, cube, 1)
      hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_V>, %v_4]  //: set(MTE2, V, s)
      hivm.hir.wait_flag[<PIPE_MTE2>, <PIPE_V>, %v_4]  //: wait(MTE2, V, s)
      //: vexp(dst=u.s[0], src=u.s[0], lanes=64, repeat=8, dst_blk=1, src_blk=1, dst_rep=8, src_rep=8)
      hivm.hir.pipe_barrier[<PIPE_V>]
      hivm.hir.vexp ins(%u_2 : memref<512xf32, strided<[1], offset: ?>, #hivm.address_space<ub>>) outs(%u_2 : memref<512xf32, strided<[1], offset: ?>, #hivm.address_space<ub>>)
      hivm.hir.set_flag[<PIPE_V>, <PIPE_MTE3>, %v_4]  //: set(V, MTE3, s)
      hivm.hir.wait_flag[<PIPE_V>, <PIPE_MTE3>, %v_4]  //: wait(V, MTE3, s)
      //: copy_ub_gm(dst=Y[t * 1024 + v * 512], src=u.s[0], bursts=1, length=2048, src_gap=0, dst_gap=0)
      %v_9 = arith.muli %t, %c1024 : index
      %v_10 = arith.addi %v_9, %v_6 : index
      %Y_2 = memref.reinterpret_cast %Y to offset: [%v_10], sizes: [512], strides: [1] : memref<5120xf32, #hivm.address_space<gm>> to memref<512xf32, strided<[1], offset: ?>, #hivm.address_space<gm>>
      hivm.hir.store ins(%u_2 : memref<512xf32, strided<[1], offset: ?>, #hivm.address_space<ub>>) outs(%Y_2 : memref<512xf32, strided<[1], offset: ?>, #hivm.address_space<gm>>)
      hivm.hir.set_flag[<PIPE_MTE3>, <PIPE_MTE2>, %v_4]  //: set(MTE3, MTE2, s)
      %v_11 = arith.addi %s, %c1 : index
      %s_2 = arith.remui %v_11, %c2 : index
      scf.yield %s_2 : index
    }
    scf.for %f = %c0 to %c2 step %c1 {  // for f in 2
      %v_12 = arith.index_cast %f : index to i64
      hivm.hir.wait_flag[<PIPE_MTE3>, <PIPE_MTE2>, %v_12]  //: wait(MTE3, MTE2, f)
    }
    hivm.hir.pipe_barrier[<PIPE_ALL>]
    return
  }
}
