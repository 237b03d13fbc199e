// Program softmax as HIVM for Ascend910B3; 5 blocks.
// Addresses, flags, loops, slots and cores are those of the program. It can be verified by the vendor's compiler front half (bishengir-opt of ascendnpu-ir 1.2.0).
// It has never run on an NPU. Lost, or not known:
//   Masks and repeats are shapes of views; the tile library of the compiler makes its own instructions of them.
module attributes {hacc.target = #hacc.target<"Ascend910B3">} {
  func.func @softmax(%X: memref<185xf16, #hivm.address_space<gm>>, %Y: memref<185xf16, #hivm.address_space<gm>>)
      attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>, hacc.block_dim = 5 : i64, hivm.func_core_type = #hivm.func_core_type<AIV>} {
    %c0_i64 = arith.constant 0 : i64
    %c1024_i64 = arith.constant 1024 : i64
    %c1536_i64 = arith.constant 1536 : i64
    %c2048_i64 = arith.constant 2048 : i64
    %c3328_i64 = arith.constant 3328 : i64
    %c4096_i64 = arith.constant 4096 : i64
    %c4608_i64 = arith.constant 4608 : i64
    %c5120_i64 = arith.constant 5120 : i64
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c1 = arith.constant 1 : index
    %c37 = arith.constant 37 : index
    %c256 = arith.constant 256 : index
    %c5632_i64 = arith.constant 5632 : i64
    %c3 = arith.constant 3 : index
    %c16 = arith.constant 16 : index
    %yes = arith.constant true
    %X_UB = hivm.hir.pointer_cast(%c0_i64) : memref<512xf16, #hivm.address_space<ub>>
    %t3 = hivm.hir.pointer_cast(%c1024_i64) : memref<256xf16, #hivm.address_space<ub>>
    %t4 = hivm.hir.pointer_cast(%c1024_i64) : memref<128xf32, #hivm.address_space<ub>>
    %t1 = hivm.hir.pointer_cast(%c1536_i64) : memref<256xf16, #hivm.address_space<ub>>
    %t5 = hivm.hir.pointer_cast(%c1536_i64) : memref<128xf32, #hivm.address_space<ub>>
    %Y_UB = hivm.hir.pointer_cast(%c2048_i64) : memref<512xf16, #hivm.address_space<ub>>
    %t0 = hivm.hir.pointer_cast(%c3328_i64) : memref<256xf16, #hivm.address_space<ub>>
    %t6 = hivm.hir.pointer_cast(%c3328_i64) : memref<128xf32, #hivm.address_space<ub>>
    %scratch_0 = hivm.hir.pointer_cast(%c4096_i64) : memref<256xf16, #hivm.address_space<ub>>
    %t2 = hivm.hir.pointer_cast(%c4096_i64) : memref<128xf32, #hivm.address_space<ub>>
    %scratch_1 = hivm.hir.pointer_cast(%c4608_i64) : memref<256xf16, #hivm.address_space<ub>>
    %scratch_7 = hivm.hir.pointer_cast(%c4608_i64) : memref<128xf32, #hivm.address_space<ub>>
    %scratch_8 = hivm.hir.pointer_cast(%c5120_i64) : memref<128xf32, #hivm.address_space<ub>>
    %block_i64 = hivm.hir.get_block_idx -> i64
    %block = arith.index_cast %block_i64 : i64 to index
    scf.for %preset_0 = %c0 to %c2 step %c1 {  // for preset_0 in 2
      %v = arith.index_cast %preset_0 : index to i64
      hivm.hir.set_flag[<PIPE_V>, <PIPE_MTE2>, %v]  //: set(V, MTE2, preset_0)
    }
    scf.for %preset_1 = %c0 to %c2 step %c1 {  // for preset_1 in 2
      %v_2 = arith.index_cast %preset_1 : index to i64
      hivm.hir.set_flag[<PIPE_MTE3>, <PIPE_V>, %v_2]  //: set(MTE3, V, preset_1)
    }
    %out_i0_s_end:2 = scf.for %out_i0_s = %c0 to %c1 step %c1 iter_args(%X_UB_slot = %c0, %Y_UB_slot = %c0) -> (index, index) {  // for out_i0_s in 1
      %v_3 = arith.index_cast %X_UB_slot : index to i64
      hivm.hir.wait_flag[<PIPE_V>, <PIPE_MTE2>, %v_3]  //: wait(V, MTE2, X_UB_slot)
      scf.for %burst_1 = %c0 to %c1 step %c1 {  // for burst_1 in 1
        //: copy_gm_ub(dst=X_UB.X_UB_slot[0], src=X[out_i0_c * 37], bursts=1, length=74, src_gap=0, dst_gap=0)
        %v_4 = arith.muli %block, %c37 : index
        %X_2 = memref.reinterpret_cast %X to offset: [%v_4], sizes: [37], strides: [1] : memref<185xf16, #hivm.address_space<gm>> to memref<37xf16, strided<[1], offset: ?>, #hivm.address_space<gm>>
        %v_5 = arith.muli %X_UB_slot, %c256 : index
        %X_UB_2 = memref.reinterpret_cast %X_UB to offset: [%v_5], sizes: [37], strides: [1] : memref<512xf16, #hivm.address_space<ub>> to memref<37xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>
        hivm.hir.load ins(%X_2 : memref<37xf16, strided<[1], offset: ?>, #hivm.address_space<gm>>) outs(%X_UB_2 : memref<37xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>)
      }
      hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_V>, %v_3]  //: set(MTE2, V, X_UB_slot)
      hivm.hir.wait_flag[<PIPE_MTE2>, <PIPE_V>, %v_3]  //: wait(MTE2, V, X_UB_slot)
      scf.for %when_9 = %c0 to %c1 step %c1 {  // for when_9 in 1
        scf.for %t0_i0 = %c0 to %c1 step %c1 {  // for t0_i0 in 1
          //: vcmax(dst=scratch_0[0], src=X_UB.X_UB_slot[0], lanes=37, repeat=1, dst_rep=1, src_blk=1, src_rep=8)
          %v_6 = arith.muli %X_UB_slot, %c256 : index
          %X_UB_3 = memref.reinterpret_cast %X_UB to offset: [%v_6], sizes: [%c1, 37], strides: [128, 1] : memref<512xf16, #hivm.address_space<ub>> to memref<?x37xf16, strided<[128, 1], offset: ?>, #hivm.address_space<ub>>
          %scratch_0_2 = memref.reinterpret_cast %scratch_0 to offset: [0], sizes: [%c1, 1], strides: [1, 1] : memref<256xf16, #hivm.address_space<ub>> to memref<?x1xf16, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>
          %no_room = hivm.hir.pointer_cast(%c0_i64) : memref<0xf16, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vreduce <max> ins(%X_UB_3 : memref<?x37xf16, strided<[128, 1], offset: ?>, #hivm.address_space<ub>>) outs(%scratch_0_2 : memref<?x1xf16, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>) temp_buffer(%no_room : memref<0xf16, #hivm.address_space<ub>>) reduce_dims = [1]
          //: vcmax(dst=scratch_1[0], src=scratch_0[0], lanes=1, repeat=1, dst_rep=1, src_blk=1, src_rep=8)
          %scratch_0_3 = memref.reinterpret_cast %scratch_0 to offset: [0], sizes: [%c1, 1], strides: [128, 1] : memref<256xf16, #hivm.address_space<ub>> to memref<?x1xf16, strided<[128, 1], offset: 0>, #hivm.address_space<ub>>
          %scratch_1_2 = memref.reinterpret_cast %scratch_1 to offset: [0], sizes: [%c1, 1], strides: [1, 1] : memref<256xf16, #hivm.address_space<ub>> to memref<?x1xf16, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>
          %room = hivm.hir.pointer_cast(%c5632_i64) : memref<16xf16, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vreduce <max> ins(%scratch_0_3 : memref<?x1xf16, strided<[128, 1], offset: 0>, #hivm.address_space<ub>>) outs(%scratch_1_2 : memref<?x1xf16, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>) temp_buffer(%room : memref<16xf16, #hivm.address_space<ub>>) reduce_dims = [1]
        }
      }
      scf.for %rows_2 = %c0 to %c1 step %c1 {  // for rows_2 in 1
        //: vbrcb(dst=t0[0], src=scratch_1[0], repeat=1, dst_blk=1, dst_rep=8)
        %t0_2 = memref.reinterpret_cast %t0 to offset: [0], sizes: [8, 16], strides: [16, 1] : memref<256xf16, #hivm.address_space<ub>> to memref<8x16xf16, strided<[16, 1], offset: 0>, #hivm.address_space<ub>>
        %scratch_1_3 = memref.reinterpret_cast %scratch_1 to offset: [0], sizes: [8, 1], strides: [1, 1] : memref<256xf16, #hivm.address_space<ub>> to memref<8x1xf16, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>
        hivm.hir.pipe_barrier[<PIPE_V>]
        %no_room_2 = hivm.hir.pointer_cast(%c0_i64) : memref<0xf16, #hivm.address_space<ub>>
        hivm.hir.vbrc ins(%scratch_1_3 : memref<8x1xf16, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>) outs(%t0_2 : memref<8x16xf16, strided<[16, 1], offset: 0>, #hivm.address_space<ub>>) temp_buffer(%no_room_2 : memref<0xf16, #hivm.address_space<ub>>) broadcast_dims = [1]
      }
      scf.for %blk_10 = %c0 to %c3 step %c1 {  // for blk_10 in 3
        scf.for %rep_11 = %c0 to %c1 step %c1 {  // for rep_11 in 1
          //: vsub(dst=t3[blk_10 * 16], src0=X_UB.X_UB_slot[blk_10 * 16], src1=t0[0], lanes=16, repeat=1, dst_blk=3, src0_blk=3, src1_blk=1, dst_rep=24, src0_rep=24, src1_rep=8)
          %v_7 = arith.muli %blk_10, %c16 : index
          %t3_2 = memref.reinterpret_cast %t3 to offset: [%v_7], sizes: [1, 16], strides: [48, 1] : memref<256xf16, #hivm.address_space<ub>> to memref<1x16xf16, strided<[48, 1], offset: ?>, #hivm.address_space<ub>>
          %v_8 = arith.muli %X_UB_slot, %c256 : index
          %v_9 = arith.addi %v_8, %v_7 : index
          %X_UB_4 = memref.reinterpret_cast %X_UB to offset: [%v_9], sizes: [1, 16], strides: [48, 1] : memref<512xf16, #hivm.address_space<ub>> to memref<1x16xf16, strided<[48, 1], offset: ?>, #hivm.address_space<ub>>
          %t0_3 = memref.reinterpret_cast %t0 to offset: [0], sizes: [1, 16], strides: [16, 1] : memref<256xf16, #hivm.address_space<ub>> to memref<1x16xf16, strided<[16, 1], offset: 0>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vsub ins(%X_UB_4, %t0_3 : memref<1x16xf16, strided<[48, 1], offset: ?>, #hivm.address_space<ub>>, memref<1x16xf16, strided<[16, 1], offset: 0>, #hivm.address_space<ub>>) outs(%t3_2 : memref<1x16xf16, strided<[48, 1], offset: ?>, #hivm.address_space<ub>>)
        }
      }
      hivm.hir.set_flag[<PIPE_V>, <PIPE_MTE2>, %v_3]  //: set(V, MTE2, X_UB_slot)
      scf.for %rep_12 = %c0 to %c1 step %c1 {  // for rep_12 in 1
        //: vexp(dst=t1[0], src=t3[0], lanes=48, repeat=1, dst_blk=1, src_blk=1, dst_rep=8, src_rep=8)
        %t1_2 = memref.reinterpret_cast %t1 to offset: [0], sizes: [48], strides: [1] : memref<256xf16, #hivm.address_space<ub>> to memref<48xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>
        %t3_3 = memref.reinterpret_cast %t3 to offset: [0], sizes: [48], strides: [1] : memref<256xf16, #hivm.address_space<ub>> to memref<48xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>
        hivm.hir.pipe_barrier[<PIPE_V>]
        hivm.hir.vexp ins(%t3_3 : memref<48xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>) outs(%t1_2 : memref<48xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>)
      }
      scf.for %when_15 = %c0 to %c1 step %c1 {  // for when_15 in 1
        //: vconv(dst=t4[0], src=t1[0], lanes=37, repeat=1, dst_blk=1, src_blk=1, dst_rep=5, src_rep=3)
        %t4_2 = memref.reinterpret_cast %t4 to offset: [0], sizes: [37], strides: [1] : memref<128xf32, #hivm.address_space<ub>> to memref<37xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>
        %t1_3 = memref.reinterpret_cast %t1 to offset: [0], sizes: [37], strides: [1] : memref<256xf16, #hivm.address_space<ub>> to memref<37xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>
        hivm.hir.pipe_barrier[<PIPE_V>]
        hivm.hir.vcast ins(%t1_3 : memref<37xf16, strided<[1], offset: 0>, #hivm.address_space<ub>>) outs(%t4_2 : memref<37xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>) round_mode = #hivm.round_mode<rint>
      }
      scf.for %when_24 = %c0 to %c1 step %c1 {  // for when_24 in 1
        scf.for %t2_i0 = %c0 to %c1 step %c1 {  // for t2_i0 in 1
          //: vcadd(dst=scratch_7[0], src=t4[0], lanes=37, repeat=1, dst_rep=1, src_blk=1, src_rep=8)
          %t4_3 = memref.reinterpret_cast %t4 to offset: [0], sizes: [%c1, 37], strides: [64, 1] : memref<128xf32, #hivm.address_space<ub>> to memref<?x37xf32, strided<[64, 1], offset: 0>, #hivm.address_space<ub>>
          %scratch_7_2 = memref.reinterpret_cast %scratch_7 to offset: [0], sizes: [%c1, 1], strides: [1, 1] : memref<128xf32, #hivm.address_space<ub>> to memref<?x1xf32, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>
          %no_room_3 = hivm.hir.pointer_cast(%c0_i64) : memref<0xf32, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vreduce <sum> ins(%t4_3 : memref<?x37xf32, strided<[64, 1], offset: 0>, #hivm.address_space<ub>>) outs(%scratch_7_2 : memref<?x1xf32, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>) temp_buffer(%no_room_3 : memref<0xf32, #hivm.address_space<ub>>) reduce_dims = [1]
          //: vcadd(dst=scratch_8[0], src=scratch_7[0], lanes=1, repeat=1, dst_rep=1, src_blk=1, src_rep=8)
          %scratch_7_3 = memref.reinterpret_cast %scratch_7 to offset: [0], sizes: [%c1, 1], strides: [64, 1] : memref<128xf32, #hivm.address_space<ub>> to memref<?x1xf32, strided<[64, 1], offset: 0>, #hivm.address_space<ub>>
          %scratch_8_2 = memref.reinterpret_cast %scratch_8 to offset: [0], sizes: [%c1, 1], strides: [1, 1] : memref<128xf32, #hivm.address_space<ub>> to memref<?x1xf32, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>
          %room_2 = hivm.hir.pointer_cast(%c5632_i64) : memref<8xf32, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vreduce <sum> ins(%scratch_7_3 : memref<?x1xf32, strided<[64, 1], offset: 0>, #hivm.address_space<ub>>) outs(%scratch_8_2 : memref<?x1xf32, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>) temp_buffer(%room_2 : memref<8xf32, #hivm.address_space<ub>>) reduce_dims = [1]
        }
      }
      scf.for %rows_17 = %c0 to %c1 step %c1 {  // for rows_17 in 1
        //: vbrcb(dst=t2[0], src=scratch_8[0], repeat=1, dst_blk=1, dst_rep=8)
        %t2_2 = memref.reinterpret_cast %t2 to offset: [0], sizes: [8, 8], strides: [8, 1] : memref<128xf32, #hivm.address_space<ub>> to memref<8x8xf32, strided<[8, 1], offset: 0>, #hivm.address_space<ub>>
        %scratch_8_3 = memref.reinterpret_cast %scratch_8 to offset: [0], sizes: [8, 1], strides: [1, 1] : memref<128xf32, #hivm.address_space<ub>> to memref<8x1xf32, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>
        hivm.hir.pipe_barrier[<PIPE_V>]
        %no_room_4 = hivm.hir.pointer_cast(%c0_i64) : memref<0xf32, #hivm.address_space<ub>>
        hivm.hir.vbrc ins(%scratch_8_3 : memref<8x1xf32, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>) outs(%t2_2 : memref<8x8xf32, strided<[8, 1], offset: 0>, #hivm.address_space<ub>>) temp_buffer(%no_room_4 : memref<0xf32, #hivm.address_space<ub>>) broadcast_dims = [1]
      }
      scf.for %rep_25 = %c0 to %c1 step %c1 {  // for rep_25 in 1
        //: vrec(dst=t6[0], src=t2[0], lanes=8, repeat=1, dst_blk=1, src_blk=1, dst_rep=8, src_rep=8)
        %t6_2 = memref.reinterpret_cast %t6 to offset: [0], sizes: [8], strides: [1] : memref<128xf32, #hivm.address_space<ub>> to memref<8xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>
        %t2_3 = memref.reinterpret_cast %t2 to offset: [0], sizes: [8], strides: [1] : memref<128xf32, #hivm.address_space<ub>> to memref<8xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>
        hivm.hir.pipe_barrier[<PIPE_V>]
        hivm.hir.vrec ins(%t2_3 : memref<8xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>) outs(%t6_2 : memref<8xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>)
      }
      scf.for %when_28 = %c0 to %c1 step %c1 {  // for when_28 in 1
        //: vmul(dst=t5[0], src0=t4[0], src1=t6[0], lanes=37, repeat=1, dst_blk=1, src0_blk=1, src1_blk=0, dst_rep=5, src0_rep=5, src1_rep=1)
        scf.if %yes {
          %t5_2 = memref.reinterpret_cast %t5 to offset: [0], sizes: [4, 8], strides: [8, 1] : memref<128xf32, #hivm.address_space<ub>> to memref<4x8xf32, strided<[8, 1], offset: 0>, #hivm.address_space<ub>>
          %t4_4 = memref.reinterpret_cast %t4 to offset: [0], sizes: [4, 8], strides: [8, 1] : memref<128xf32, #hivm.address_space<ub>> to memref<4x8xf32, strided<[8, 1], offset: 0>, #hivm.address_space<ub>>
          %t6_3 = memref.reinterpret_cast %t6 to offset: [0], sizes: [1, 8], strides: [1, 1] : memref<128xf32, #hivm.address_space<ub>> to memref<1x8xf32, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vmul ins(%t4_4, %t6_3 : memref<4x8xf32, strided<[8, 1], offset: 0>, #hivm.address_space<ub>>, memref<1x8xf32, strided<[1, 1], offset: 0>, #hivm.address_space<ub>>) outs(%t5_2 : memref<4x8xf32, strided<[8, 1], offset: 0>, #hivm.address_space<ub>>) broadcast = [0]
        }
        scf.if %yes {
          %t5_3 = memref.reinterpret_cast %t5 to offset: [32], sizes: [5], strides: [1] : memref<128xf32, #hivm.address_space<ub>> to memref<5xf32, strided<[1], offset: 32>, #hivm.address_space<ub>>
          %t4_5 = memref.reinterpret_cast %t4 to offset: [32], sizes: [5], strides: [1] : memref<128xf32, #hivm.address_space<ub>> to memref<5xf32, strided<[1], offset: 32>, #hivm.address_space<ub>>
          %t6_4 = memref.reinterpret_cast %t6 to offset: [0], sizes: [5], strides: [1] : memref<128xf32, #hivm.address_space<ub>> to memref<5xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>
          hivm.hir.pipe_barrier[<PIPE_V>]
          hivm.hir.vmul ins(%t4_5, %t6_4 : memref<5xf32, strided<[1], offset: 32>, #hivm.address_space<ub>>, memref<5xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>) outs(%t5_3 : memref<5xf32, strided<[1], offset: 32>, #hivm.address_space<ub>>)
        }
      }
      %v_10 = arith.index_cast %Y_UB_slot : index to i64
      hivm.hir.wait_flag[<PIPE_MTE3>, <PIPE_V>, %v_10]  //: wait(MTE3, V, Y_UB_slot)
      scf.for %when_32 = %c0 to %c1 step %c1 {  // for when_32 in 1
        //: vconv(dst=Y_UB.Y_UB_slot[0], src=t5[0], lanes=37, repeat=1, dst_blk=1, src_blk=1, dst_rep=3, src_rep=5)
        %v_11 = arith.muli %Y_UB_slot, %c256 : index
        %Y_UB_2 = memref.reinterpret_cast %Y_UB to offset: [%v_11], sizes: [37], strides: [1] : memref<512xf16, #hivm.address_space<ub>> to memref<37xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>
        %t5_4 = memref.reinterpret_cast %t5 to offset: [0], sizes: [37], strides: [1] : memref<128xf32, #hivm.address_space<ub>> to memref<37xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>
        hivm.hir.pipe_barrier[<PIPE_V>]
        hivm.hir.vcast ins(%t5_4 : memref<37xf32, strided<[1], offset: 0>, #hivm.address_space<ub>>) outs(%Y_UB_2 : memref<37xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>) round_mode = #hivm.round_mode<rint>
      }
      hivm.hir.set_flag[<PIPE_V>, <PIPE_MTE3>, %v_10]  //: set(V, MTE3, Y_UB_slot)
      hivm.hir.wait_flag[<PIPE_V>, <PIPE_MTE3>, %v_10]  //: wait(V, MTE3, Y_UB_slot)
      scf.for %burst_34 = %c0 to %c1 step %c1 {  // for burst_34 in 1
        //: copy_ub_gm(dst=Y[out_i0_c * 37], src=Y_UB.Y_UB_slot[0], bursts=1, length=74, src_gap=0, dst_gap=0)
        %v_12 = arith.muli %Y_UB_slot, %c256 : index
        %Y_UB_3 = memref.reinterpret_cast %Y_UB to offset: [%v_12], sizes: [37], strides: [1] : memref<512xf16, #hivm.address_space<ub>> to memref<37xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>
        %v_13 = arith.muli %block, %c37 : index
        %Y_2 = memref.reinterpret_cast %Y to offset: [%v_13], sizes: [37], strides: [1] : memref<185xf16, #hivm.address_space<gm>> to memref<37xf16, strided<[1], offset: ?>, #hivm.address_space<gm>>
        hivm.hir.store ins(%Y_UB_3 : memref<37xf16, strided<[1], offset: ?>, #hivm.address_space<ub>>) outs(%Y_2 : memref<37xf16, strided<[1], offset: ?>, #hivm.address_space<gm>>)
      }
      hivm.hir.set_flag[<PIPE_MTE3>, <PIPE_V>, %v_10]  //: set(MTE3, V, Y_UB_slot)
      %v_14 = arith.addi %X_UB_slot, %c1 : index
      %X_UB_slot_2 = arith.remui %v_14, %c2 : index
      %v_15 = arith.addi %Y_UB_slot, %c1 : index
      %Y_UB_slot_2 = arith.remui %v_15, %c2 : index
      scf.yield %X_UB_slot_2, %Y_UB_slot_2 : index, index
    }
    scf.for %drain_0 = %c0 to %c2 step %c1 {  // for drain_0 in 2
      %v_16 = arith.index_cast %drain_0 : index to i64
      hivm.hir.wait_flag[<PIPE_V>, <PIPE_MTE2>, %v_16]  //: wait(V, MTE2, drain_0)
    }
    scf.for %drain_1 = %c0 to %c2 step %c1 {  // for drain_1 in 2
      %v_17 = arith.index_cast %drain_1 : index to i64
      hivm.hir.wait_flag[<PIPE_MTE3>, <PIPE_V>, %v_17]  //: wait(MTE3, V, drain_1)
    }
    hivm.hir.pipe_barrier[<PIPE_ALL>]
    return
  }
}
