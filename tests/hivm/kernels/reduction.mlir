// Program reduction as HIVM for Ascend910B3; 3 blocks.
// Addresses, flags, loops, slots and cores are those of the program. It can be verified by the vendor's compiler front half (bishengir-opt of ascendnpu-ir 1.2.0).
// It has never run on an NPU. Lost, or not known:
//   Masks and repeats are shapes of views; the tile library of the compiler makes its own instructions of them.
module attributes {hacc.target = #hacc.target<"Ascend910B3">} {
  func.func @reduction(%X: memref<1890xf32, #hivm.address_space<gm>>, %Y: memref<70xf32, #hivm.address_space<gm>>)
      attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>, hacc.block_dim = 3 : i64, hivm.func_core_type = #hivm.func_core_type<AIV>} {
    %c0_i64 = arith.constant 0 : i64
    %c6144_i64 = arith.constant 6144 : i64
    %c8704_i64 = arith.constant 8704 : i64
    %c17408_i64 = arith.constant 17408 : i64
    %c18944_i64 = arith.constant 18944 : i64
    %c20480_i64 = arith.constant 20480 : i64
    %c22016_i64 = arith.constant 22016 : i64
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c1 = arith.constant 1 : index
    %c648 = arith.constant 648 : index
    %c70 = arith.constant 70 : index
    %c24 = arith.constant 24 : index
    %c768 = arith.constant 768 : index
    %c8 = arith.constant 8 : index
    %c128 = arith.constant 128 : index
    %c512 = arith.constant 512 : index
    %c520 = arith.constant 520 : index
    %c536 = arith.constant 536 : index
    %c3 = arith.constant 3 : index
    %c16 = arith.constant 16 : index
    %c256 = arith.constant 256 : index
    %X_UB = hivm.hir.pointer_cast(%c0_i64) : memref<1536xf32, #hivm.address_space<ub>>
    %t0 = hivm.hir.pointer_cast(%c6144_i64) : memref<512xf32, #hivm.address_space<ub>>
    %scratch_1 = hivm.hir.pointer_cast(%c8704_i64) : memref<128xf32, #hivm.address_space<ub>>
    %scratch_3 = hivm.hir.pointer_cast(%c17408_i64) : memref<384xf32, #hivm.address_space<ub>>
    %scratch_4 = hivm.hir.pointer_cast(%c18944_i64) : memref<384xf32, #hivm.address_space<ub>>
    %scratch_5 = hivm.hir.pointer_cast(%c20480_i64) : memref<384xf32, #hivm.address_space<ub>>
    %scratch_6 = hivm.hir.pointer_cast(%c22016_i64) : memref<384xf32, #hivm.address_space<ub>>
    %block_i64 = hivm.hir.get_block_idx -> i64
    %block = arith.index_cast %block_i64 : i64 to index
    scf.for %preset_0 = %c0 to %c2 step %c1 {  // for preset_0 in 2
      %v = arith.index_cast %preset_0 : index to i64
      hivm.hir.set_flag[<PIPE_MTE3>, <PIPE_V>, %v]  //: set(MTE3, V, preset_0)
    }
    scf.for %preset_1 = %c0 to %c2 step %c1 {  // for preset_1 in 2
      %v_2 = arith.index_cast %preset_1 : index to i64
      hivm.hir.set_flag[<PIPE_V>, <PIPE_MTE2>, %v_2]  //: set(V, MTE2, preset_1)
    }
    %out_i0_s_end:2 = scf.for %out_i0_s = %c0 to %c1 step %c1 iter_args(%t0_slot = %c0, %X_UB_slot = %c0) -> (index, index) {  // for out_i0_s in 1
      %v_3 = arith.index_cast %X_UB_slot : index to i64
      hivm.hir.wait_flag[<PIPE_V>, <PIPE_MTE2>, %v_3]  //: wait(V, MTE2, X_UB_slot)
      scf.for %burst_1 = %c0 to %c1 step %c1 {  // for burst_1 in 1
        //: copy_gm_ub(dst=X_UB.X_UB_slot[0], src=X[out_i0_c * 648], bursts=min(70 - out_i0_c * 24, 24), length=108, src_gap=0, dst_gap=0)
        %v_4 = arith.muli %block, %c648 : index
        %v_5 = arith.muli %block, %c24 : index
        %v_6 = arith.subi %c70, %v_5 : index
        %v_7 = arith.minsi %v_6, %c24 : index
        %X_2 = memref.reinterpret_cast %X to offset: [%v_4], sizes: [%v_7, 27], strides: [27, 1] : memref<1890xf32, #hivm.address_space<gm>> to memref<?x27xf32, strided<[27, 1], offset: ?>, #hivm.address_space<gm>>
        %v_8 = arith.muli %X_UB_slot, %c768 : index
        %X_UB_2 = memref.reinterpret_cast %X_UB to offset: [%v_8], sizes: [%v_7, 27], strides: [32, 1] : memref<1536xf32, #hivm.address_space<ub>> to memref<?x27xf32, strided<[32, 1], offset: ?>, #hivm.address_space<ub>>
        hivm.hir.load ins(%X_2 : memref<?x27xf32, strided<[27, 1], offset: ?>, #hivm.address_space<gm>>) outs(%X_UB_2 : memref<?x27xf32, strided<[32, 1], offset: ?>, #hivm.address_space<ub>>)
      }
      hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_V>, %v_3]  //: set(MTE2, V, X_UB_slot)
      %v_9 = arith.index_cast %t0_slot : index to i64
      hivm.hir.wait_flag[<PIPE_MTE3>, <PIPE_V>, %v_9]  //: wait(MTE3, V, t0_slot)
      hivm.hir.wait_flag[<PIPE_MTE2>, <PIPE_V>, %v_3]  //: wait(MTE2, V, X_UB_slot)
      scf.for %when_8 = %c0 to %c1 step %c1 {  // for when_8 in 1
        scf.for %batch_5 = %c0 to %c1 step %c1 {  // for batch_5 in 1
          //: vcopy(dst=scratch_3[0], src=X_UB.X_UB_slot[0], lanes=min(70 - out_i0_c * 24, 24) * 8 - 128, repeat=3, dst_blk=1, src_blk=4, dst_rep=8, src_rep=32)
          %scratch_3_2 = memref.reinterpret_cast %scratch_3 to offset: [0], sizes: [2, 8, 8], strides: [64, 8, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x8x8xf32, strided<[64, 8, 1], offset: 0>, #hivm.address_space<ub>>
          %v_10 = arith.muli %X_UB_slot, %c768 : index
          %X_UB_3 = memref.reinterpret_cast %X_UB to offset: [%v_10], sizes: [2, 8, 8], strides: [256, 32, 1] : memref<1536xf32, #hivm.address_space<ub>> to memref<2x8x8xf32, strided<[256, 32, 1], offset: ?>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.copy ins(%X_UB_3 : memref<2x8x8xf32, strided<[256, 32, 1], offset: ?>, #hivm.address_space<ub>>) outs(%scratch_3_2 : memref<2x8x8xf32, strided<[64, 8, 1], offset: 0>, #hivm.address_space<ub>>)
          %v_11 = arith.muli %block, %c24 : index
          %v_12 = arith.subi %c70, %v_11 : index
          %v_13 = arith.minsi %v_12, %c24 : index
          %v_14 = arith.muli %v_13, %c8 : index
          %v_15 = arith.subi %v_14, %c128 : index
          %v_16 = arith.floordivsi %v_15, %c8 : index
          %scratch_3_3 = memref.reinterpret_cast %scratch_3 to offset: [128], sizes: [%v_16, 8], strides: [8, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<?x8xf32, strided<[8, 1], offset: 128>, #hivm.address_space<ub>>
          %v_17 = arith.addi %v_10, %c512 : index
          %X_UB_4 = memref.reinterpret_cast %X_UB to offset: [%v_17], sizes: [%v_16, 8], strides: [32, 1] : memref<1536xf32, #hivm.address_space<ub>> to memref<?x8xf32, strided<[32, 1], offset: ?>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.copy ins(%X_UB_4 : memref<?x8xf32, strided<[32, 1], offset: ?>, #hivm.address_space<ub>>) outs(%scratch_3_3 : memref<?x8xf32, strided<[8, 1], offset: 128>, #hivm.address_space<ub>>)
          scf.for %fold_6 = %c0 to %c2 step %c1 {  // for fold_6 in 2
            //: vmin(dst=scratch_3[0], src0=scratch_3[0], src1=X_UB.X_UB_slot[fold_6 * 8 + 8], lanes=min(70 - out_i0_c * 24, 24) * 8 - 128, repeat=3, dst_blk=1, src0_blk=1, src1_blk=4, dst_rep=8, src0_rep=8, src1_rep=32)
            %v_18 = arith.muli %fold_6, %c8 : index
            %v_19 = arith.addi %v_18, %v_10 : index
            %v_20 = arith.addi %v_19, %c8 : index
            %X_UB_5 = memref.reinterpret_cast %X_UB to offset: [%v_20], sizes: [2, 8, 8], strides: [256, 32, 1] : memref<1536xf32, #hivm.address_space<ub>> to memref<2x8x8xf32, strided<[256, 32, 1], offset: ?>, #hivm.address_space<ub>>
            hivm.hir.pipe_barrier[<PIPE_V>]
            hivm.hir.vmin ins(%scratch_3_2, %X_UB_5 : memref<2x8x8xf32, strided<[64, 8, 1], offset: 0>, #hivm.address_space<ub>>, memref<2x8x8xf32, strided<[256, 32, 1], offset: ?>, #hivm.address_space<ub>>) outs(%scratch_3_2 : memref<2x8x8xf32, strided<[64, 8, 1], offset: 0>, #hivm.address_space<ub>>)
            %v_21 = arith.addi %v_19, %c520 : index
            %X_UB_6 = memref.reinterpret_cast %X_UB to offset: [%v_21], sizes: [%v_16, 8], strides: [32, 1] : memref<1536xf32, #hivm.address_space<ub>> to memref<?x8xf32, strided<[32, 1], offset: ?>, #hivm.address_space<ub>>
            hivm.hir.pipe_barrier[<PIPE_V>]
            hivm.hir.vmin ins(%scratch_3_3, %X_UB_6 : memref<?x8xf32, strided<[8, 1], offset: 128>, #hivm.address_space<ub>>, memref<?x8xf32, strided<[32, 1], offset: ?>, #hivm.address_space<ub>>) outs(%scratch_3_3 : memref<?x8xf32, strided<[8, 1], offset: 128>, #hivm.address_space<ub>>)
          }
          //: vnchwconv(dst=scratch_4[0], src=scratch_3[0], repeat=2, dst_stride=2, dst_half=1, src_stride=1, dst_rep=17, src_rep=16)
          %scratch_3_4 = memref.reinterpret_cast %scratch_3 to offset: [0], sizes: [2, 16, 8], strides: [128, 8, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x16x8xf32, strided<[128, 8, 1], offset: 0>, #hivm.address_space<ub>>
          %scratch_4_2 = memref.reinterpret_cast %scratch_4 to offset: [0], sizes: [2, 8, 16], strides: [136, 16, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x8x16xf32, strided<[136, 16, 1], offset: 0>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vtranspose ins(%scratch_3_4 : memref<2x16x8xf32, strided<[128, 8, 1], offset: 0>, #hivm.address_space<ub>>) outs(%scratch_4_2 : memref<2x8x16xf32, strided<[136, 16, 1], offset: 0>, #hivm.address_space<ub>>) permutation = [0, 2, 1]
          //: vcopy(dst=scratch_5[0], src=X_UB.X_UB_slot[24], lanes=min(70 - out_i0_c * 24, 24) * 8 - 128, repeat=3, dst_blk=1, src_blk=4, dst_rep=8, src_rep=32)
          %scratch_5_2 = memref.reinterpret_cast %scratch_5 to offset: [0], sizes: [2, 8, 8], strides: [64, 8, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x8x8xf32, strided<[64, 8, 1], offset: 0>, #hivm.address_space<ub>>
          %v_22 = arith.addi %v_10, %c24 : index
          %X_UB_7 = memref.reinterpret_cast %X_UB to offset: [%v_22], sizes: [2, 8, 8], strides: [256, 32, 1] : memref<1536xf32, #hivm.address_space<ub>> to memref<2x8x8xf32, strided<[256, 32, 1], offset: ?>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.copy ins(%X_UB_7 : memref<2x8x8xf32, strided<[256, 32, 1], offset: ?>, #hivm.address_space<ub>>) outs(%scratch_5_2 : memref<2x8x8xf32, strided<[64, 8, 1], offset: 0>, #hivm.address_space<ub>>)
          %scratch_5_3 = memref.reinterpret_cast %scratch_5 to offset: [128], sizes: [%v_16, 8], strides: [8, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<?x8xf32, strided<[8, 1], offset: 128>, #hivm.address_space<ub>>
          %v_23 = arith.addi %v_10, %c536 : index
          %X_UB_8 = memref.reinterpret_cast %X_UB to offset: [%v_23], sizes: [%v_16, 8], strides: [32, 1] : memref<1536xf32, #hivm.address_space<ub>> to memref<?x8xf32, strided<[32, 1], offset: ?>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.copy ins(%X_UB_8 : memref<?x8xf32, strided<[32, 1], offset: ?>, #hivm.address_space<ub>>) outs(%scratch_5_3 : memref<?x8xf32, strided<[8, 1], offset: 128>, #hivm.address_space<ub>>)
          //: vnchwconv(dst=scratch_6[0], src=scratch_5[0], repeat=2, dst_stride=2, dst_half=1, src_stride=1, dst_rep=17, src_rep=16)
          %scratch_5_4 = memref.reinterpret_cast %scratch_5 to offset: [0], sizes: [2, 16, 8], strides: [128, 8, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x16x8xf32, strided<[128, 8, 1], offset: 0>, #hivm.address_space<ub>>
          %scratch_6_2 = memref.reinterpret_cast %scratch_6 to offset: [0], sizes: [2, 8, 16], strides: [136, 16, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x8x16xf32, strided<[136, 16, 1], offset: 0>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vtranspose ins(%scratch_5_4 : memref<2x16x8xf32, strided<[128, 8, 1], offset: 0>, #hivm.address_space<ub>>) outs(%scratch_6_2 : memref<2x8x16xf32, strided<[136, 16, 1], offset: 0>, #hivm.address_space<ub>>) permutation = [0, 2, 1]
          scf.for %lane_7 = %c0 to %c3 step %c1 {  // for lane_7 in 3
            //: vmin(dst=scratch_4[0], src0=scratch_4[0], src1=scratch_6[lane_7 * 16], lanes=16, repeat=1, dst_blk=17, src0_blk=17, src1_blk=17, dst_rep=136, src0_rep=136, src1_rep=136)
            %scratch_4_3 = memref.reinterpret_cast %scratch_4 to offset: [0], sizes: [2, 8], strides: [136, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x8xf32, strided<[136, 1], offset: 0>, #hivm.address_space<ub>>
            %v_24 = arith.muli %lane_7, %c16 : index
            %scratch_6_3 = memref.reinterpret_cast %scratch_6 to offset: [%v_24], sizes: [2, 8], strides: [136, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x8xf32, strided<[136, 1], offset: ?>, #hivm.address_space<ub>>
            hivm.hir.pipe_barrier[<PIPE_V>]
            hivm.hir.vmin ins(%scratch_4_3, %scratch_6_3 : memref<2x8xf32, strided<[136, 1], offset: 0>, #hivm.address_space<ub>>, memref<2x8xf32, strided<[136, 1], offset: ?>, #hivm.address_space<ub>>) outs(%scratch_4_3 : memref<2x8xf32, strided<[136, 1], offset: 0>, #hivm.address_space<ub>>)
            //: vmin(dst=scratch_4[8], src0=scratch_4[8], src1=scratch_6[lane_7 * 16 + 8], lanes=16, repeat=1, dst_blk=17, src0_blk=17, src1_blk=17, dst_rep=136, src0_rep=136, src1_rep=136)
            %scratch_4_4 = memref.reinterpret_cast %scratch_4 to offset: [8], sizes: [2, 8], strides: [136, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x8xf32, strided<[136, 1], offset: 8>, #hivm.address_space<ub>>
            %v_25 = arith.addi %v_24, %c8 : index
            %scratch_6_4 = memref.reinterpret_cast %scratch_6 to offset: [%v_25], sizes: [2, 8], strides: [136, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x8xf32, strided<[136, 1], offset: ?>, #hivm.address_space<ub>>
            hivm.hir.pipe_barrier[<PIPE_V>]
            hivm.hir.vmin ins(%scratch_4_4, %scratch_6_4 : memref<2x8xf32, strided<[136, 1], offset: 8>, #hivm.address_space<ub>>, memref<2x8xf32, strided<[136, 1], offset: ?>, #hivm.address_space<ub>>) outs(%scratch_4_4 : memref<2x8xf32, strided<[136, 1], offset: 8>, #hivm.address_space<ub>>)
          }
          //: vmin(dst=scratch_4[0], src0=scratch_4[0], src1=scratch_4[64], lanes=64, repeat=2, dst_blk=1, src0_blk=1, src1_blk=1, dst_rep=17, src0_rep=17, src1_rep=17)
          %scratch_4_5 = memref.reinterpret_cast %scratch_4 to offset: [0], sizes: [2, 64], strides: [136, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x64xf32, strided<[136, 1], offset: 0>, #hivm.address_space<ub>>
          %scratch_4_6 = memref.reinterpret_cast %scratch_4 to offset: [64], sizes: [2, 64], strides: [136, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x64xf32, strided<[136, 1], offset: 64>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vmin ins(%scratch_4_5, %scratch_4_6 : memref<2x64xf32, strided<[136, 1], offset: 0>, #hivm.address_space<ub>>, memref<2x64xf32, strided<[136, 1], offset: 64>, #hivm.address_space<ub>>) outs(%scratch_4_5 : memref<2x64xf32, strided<[136, 1], offset: 0>, #hivm.address_space<ub>>)
          //: vmin(dst=scratch_4[0], src0=scratch_4[0], src1=scratch_4[32], lanes=64, repeat=2, dst_blk=1, src0_blk=1, src1_blk=1, dst_rep=17, src0_rep=17, src1_rep=17)
          %scratch_4_7 = memref.reinterpret_cast %scratch_4 to offset: [32], sizes: [2, 64], strides: [136, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x64xf32, strided<[136, 1], offset: 32>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vmin ins(%scratch_4_5, %scratch_4_7 : memref<2x64xf32, strided<[136, 1], offset: 0>, #hivm.address_space<ub>>, memref<2x64xf32, strided<[136, 1], offset: 32>, #hivm.address_space<ub>>) outs(%scratch_4_5 : memref<2x64xf32, strided<[136, 1], offset: 0>, #hivm.address_space<ub>>)
          //: vmin(dst=scratch_1[0], src0=scratch_4[0], src1=scratch_4[16], lanes=16, repeat=1, dst_blk=2, src0_blk=17, src1_blk=17, dst_rep=16, src0_rep=136, src1_rep=136)
          %scratch_1_2 = memref.reinterpret_cast %scratch_1 to offset: [0], sizes: [2, 8], strides: [16, 1] : memref<128xf32, #hivm.address_space<ub>> to memref<2x8xf32, strided<[16, 1], offset: 0>, #hivm.address_space<ub>>
          %scratch_4_8 = memref.reinterpret_cast %scratch_4 to offset: [0], sizes: [2, 8], strides: [136, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x8xf32, strided<[136, 1], offset: 0>, #hivm.address_space<ub>>
          %scratch_4_9 = memref.reinterpret_cast %scratch_4 to offset: [16], sizes: [2, 8], strides: [136, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x8xf32, strided<[136, 1], offset: 16>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vmin ins(%scratch_4_8, %scratch_4_9 : memref<2x8xf32, strided<[136, 1], offset: 0>, #hivm.address_space<ub>>, memref<2x8xf32, strided<[136, 1], offset: 16>, #hivm.address_space<ub>>) outs(%scratch_1_2 : memref<2x8xf32, strided<[16, 1], offset: 0>, #hivm.address_space<ub>>)
          //: vmin(dst=scratch_1[8], src0=scratch_4[8], src1=scratch_4[24], lanes=16, repeat=1, dst_blk=2, src0_blk=17, src1_blk=17, dst_rep=16, src0_rep=136, src1_rep=136)
          %scratch_1_3 = memref.reinterpret_cast %scratch_1 to offset: [8], sizes: [2, 8], strides: [16, 1] : memref<128xf32, #hivm.address_space<ub>> to memref<2x8xf32, strided<[16, 1], offset: 8>, #hivm.address_space<ub>>
          %scratch_4_10 = memref.reinterpret_cast %scratch_4 to offset: [8], sizes: [2, 8], strides: [136, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x8xf32, strided<[136, 1], offset: 8>, #hivm.address_space<ub>>
          %scratch_4_11 = memref.reinterpret_cast %scratch_4 to offset: [24], sizes: [2, 8], strides: [136, 1] : memref<384xf32, #hivm.address_space<ub>> to memref<2x8xf32, strided<[136, 1], offset: 24>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vmin ins(%scratch_4_10, %scratch_4_11 : memref<2x8xf32, strided<[136, 1], offset: 8>, #hivm.address_space<ub>>, memref<2x8xf32, strided<[136, 1], offset: 24>, #hivm.address_space<ub>>) outs(%scratch_1_3 : memref<2x8xf32, strided<[16, 1], offset: 8>, #hivm.address_space<ub>>)
        }
      }
      scf.for %rows_2 = %c0 to %c1 step %c1 {  // for rows_2 in 1
        //: vbrcb(dst=t0.t0_slot[0], src=scratch_1[0], repeat=3, dst_blk=1, dst_rep=8)
        %v_26 = arith.muli %t0_slot, %c256 : index
        %t0_2 = memref.reinterpret_cast %t0 to offset: [%v_26], sizes: [24, 8], strides: [8, 1] : memref<512xf32, #hivm.address_space<ub>> to memref<24x8xf32, strided<[8, 1], offset: ?>, #hivm.address_space<ub>>
        %scratch_1_4 = memref.reinterpret_cast %scratch_1 to offset: [0], sizes: [24, 1], strides: [1, 1] : memref<128xf32, #hivm.address_space<ub>> to memref<24x1xf32, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>
        hivm.hir.pipe_barrier[<PIPE_V>]
        %no_room = hivm.hir.pointer_cast(%c0_i64) : memref<0xf32, #hivm.address_space<ub>>
        hivm.hir.vbrc ins(%scratch_1_4 : memref<24x1xf32, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>) outs(%t0_2 : memref<24x8xf32, strided<[8, 1], offset: ?>, #hivm.address_space<ub>>) temp_buffer(%no_room : memref<0xf32, #hivm.address_space<ub>>) broadcast_dims = [1]
      }
      hivm.hir.set_flag[<PIPE_V>, <PIPE_MTE2>, %v_3]  //: set(V, MTE2, X_UB_slot)
      hivm.hir.set_flag[<PIPE_V>, <PIPE_MTE3>, %v_9]  //: set(V, MTE3, t0_slot)
      hivm.hir.wait_flag[<PIPE_V>, <PIPE_MTE3>, %v_9]  //: wait(V, MTE3, t0_slot)
      scf.for %burst_10 = %c0 to %c1 step %c1 {  // for burst_10 in 1
        //: copy_ub_gm(dst=Y[out_i0_c * 24], src=t0.t0_slot[0], bursts=min(70 - out_i0_c * 24, 24), length=4, src_gap=0, dst_gap=0)
        %v_27 = arith.muli %t0_slot, %c256 : index
        %v_28 = arith.muli %block, %c24 : index
        %v_29 = arith.subi %c70, %v_28 : index
        %v_30 = arith.minsi %v_29, %c24 : index
        %t0_3 = memref.reinterpret_cast %t0 to offset: [%v_27], sizes: [%v_30, 1], strides: [8, 1] : memref<512xf32, #hivm.address_space<ub>> to memref<?x1xf32, strided<[8, 1], offset: ?>, #hivm.address_space<ub>>
        %Y_2 = memref.reinterpret_cast %Y to offset: [%v_28], sizes: [%v_30, 1], strides: [1, 1] : memref<70xf32, #hivm.address_space<gm>> to memref<?x1xf32, strided<[1, 1], offset: ?>, #hivm.address_space<gm>>
        hivm.hir.store ins(%t0_3 : memref<?x1xf32, strided<[8, 1], offset: ?>, #hivm.address_space<ub>>) outs(%Y_2 : memref<?x1xf32, strided<[1, 1], offset: ?>, #hivm.address_space<gm>>)
      }
      hivm.hir.set_flag[<PIPE_MTE3>, <PIPE_V>, %v_9]  //: set(MTE3, V, t0_slot)
      %v_31 = arith.addi %t0_slot, %c1 : index
      %t0_slot_2 = arith.remui %v_31, %c2 : index
      %v_32 = arith.addi %X_UB_slot, %c1 : index
      %X_UB_slot_2 = arith.remui %v_32, %c2 : index
      scf.yield %t0_slot_2, %X_UB_slot_2 : index, index
    }
    scf.for %drain_0 = %c0 to %c2 step %c1 {  // for drain_0 in 2
      %v_33 = arith.index_cast %drain_0 : index to i64
      hivm.hir.wait_flag[<PIPE_MTE3>, <PIPE_V>, %v_33]  //: wait(MTE3, V, drain_0)
    }
    scf.for %drain_1 = %c0 to %c2 step %c1 {  // for drain_1 in 2
      %v_34 = arith.index_cast %drain_1 : index to i64
      hivm.hir.wait_flag[<PIPE_V>, <PIPE_MTE2>, %v_34]  //: wait(V, MTE2, drain_1)
    }
    hivm.hir.pipe_barrier[<PIPE_ALL>]
    return
  }
}
