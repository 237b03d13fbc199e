// Program matmul_bias_relu as HIVM for Ascend910B3; 3 blocks.
// Addresses, flags, loops, slots and cores are those of the program. It can be verified by the vendor's compiler front half (bishengir-opt of ascendnpu-ir 1.2.0).
// It has never run on an NPU. Lost, or not known:
//   Masks and repeats are shapes of views; the tile library of the compiler makes its own instructions of them.
//   A bias is laid down by a product of zeros in L1: with a bias, the wheel lowers a turned right side as if it were not turned. It is the same number where the right side is finite. The split over L0A and L0B, their slots, and the flags between MTE1 and M are the library's own. UnitFlag is off. Whether the library reads a tile of L1 by its strides is not known.
module attributes {hacc.target = #hacc.target<"Ascend910B3">} {
  func.func @matmul_bias_relu(%A: memref<1850xf16, #hivm.address_space<gm>>, %B: memref<2048xf16, #hivm.address_space<gm>>, %bias: memref<32xf32, #hivm.address_space<gm>>, %Y: memref<777xf16, #hivm.address_space<gm>>)
      attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>, hacc.block_dim = 3 : i64, hivm.func_core_type = #hivm.func_core_type<AIC>} {
    %c0_i64 = arith.constant 0 : i64
    %c2048_i64 = arith.constant 2048 : i64
    %c6144_i64 = arith.constant 6144 : i64
    %c6656_i64 = arith.constant 6656 : i64
    %real_f16 = arith.constant 0.0 : f16
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c800 = arith.constant 800 : index
    %c37 = arith.constant 37 : index
    %c16 = arith.constant 16 : index
    %yes = arith.constant true
    %c21 = arith.constant 21 : index
    %no = arith.constant false
    %c50 = arith.constant 50 : index
    %c336 = arith.constant 336 : index
    %A_L1 = hivm.hir.pointer_cast(%c0_i64) : memref<1024xf16, #hivm.address_space<cbuf>>
    %B_L1 = hivm.hir.pointer_cast(%c2048_i64) : memref<2048xf16, #hivm.address_space<cbuf>>
    %bias_L1 = hivm.hir.pointer_cast(%c6144_i64) : memref<128xf32, #hivm.address_space<cbuf>>
    %C = hivm.hir.pointer_cast(%c0_i64) : memref<512xf32, #hivm.address_space<cc>>
    %zeros = hivm.hir.pointer_cast(%c6656_i64) : memref<512xf16, #hivm.address_space<cbuf>>
    hivm.hir.vbrc ins(%real_f16 : f16) outs(%zeros : memref<512xf16, #hivm.address_space<cbuf>>)
    hivm.hir.pipe_barrier[<PIPE_ALL>]
    %block_i64 = hivm.hir.get_block_idx -> i64
    %block = arith.index_cast %block_i64 : i64 to index
    scf.for %preset_2 = %c0 to %c1 step %c1 {  // for preset_2 in 1
      hivm.hir.set_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID0>]  //: set(MTE1, MTE2, 0)
    }
    scf.for %preset_3 = %c0 to %c1 step %c1 {  // for preset_3 in 1
      hivm.hir.set_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID1>]  //: set(MTE1, MTE2, 1)
    }
    scf.for %preset_4 = %c0 to %c1 step %c1 {  // for preset_4 in 1
      hivm.hir.set_flag[<PIPE_FIX>, <PIPE_M>, <EVENT_ID0>]  //: set(FIXP, M, 0)
    }
    scf.for %preset_5 = %c0 to %c1 step %c1 {  // for preset_5 in 1
      hivm.hir.set_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID2>]  //: set(MTE1, MTE2, 2)
    }
    scf.for %m_s = %c0 to %c1 step %c1 {  // for m_s in 1
      scf.for %n_s = %c0 to %c1 step %c1 {  // for n_s in 1
        hivm.hir.wait_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID2>]  //: wait(MTE1, MTE2, 2)
        //: copy_gm_l1(dst=bias_L1[0], src=bias[0], bursts=1, length=3, src_gap=0, dst_gap=0)
        %bias_L1_2 = memref.reinterpret_cast %bias_L1 to offset: [0], sizes: [24], strides: [1] : memref<128xf32, #hivm.address_space<cbuf>> to memref<24xf32, strided<[1], offset: 0>, #hivm.address_space<cbuf>>
        %bias_2 = memref.reinterpret_cast %bias to offset: [0], sizes: [24], strides: [1] : memref<32xf32, #hivm.address_space<gm>> to memref<24xf32, strided<[1], offset: 0>, #hivm.address_space<gm>>
        hivm.hir.load ins(%bias_2 : memref<24xf32, strided<[1], offset: 0>, #hivm.address_space<gm>>) outs(%bias_L1_2 : memref<24xf32, strided<[1], offset: 0>, #hivm.address_space<cbuf>>)
        hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_MTE1>, <EVENT_ID2>]  //: set(MTE2, MTE1, 2)
        hivm.hir.wait_flag[<PIPE_MTE2>, <PIPE_MTE1>, <EVENT_ID2>]  //: wait(MTE2, MTE1, 2)
        hivm.hir.wait_flag[<PIPE_FIX>, <PIPE_M>, <EVENT_ID0>]  //: wait(FIXP, M, 0)
        scf.for %k_2 = %c0 to %c1 step %c1 {  // for k_2 in 1
          hivm.hir.wait_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID1>]  //: wait(MTE1, MTE2, 1)
          //: copy_gm_l1(dst=B_L1[0], src=B[0], bursts=4, length=32, src_gap=0, dst_gap=0)
          %B_L1_2 = memref.reinterpret_cast %B_L1 to offset: [0], sizes: [4, 512], strides: [512, 1] : memref<2048xf16, #hivm.address_space<cbuf>> to memref<4x512xf16, strided<[512, 1], offset: 0>, #hivm.address_space<cbuf>>
          %B_2 = memref.reinterpret_cast %B to offset: [0], sizes: [4, 512], strides: [512, 1] : memref<2048xf16, #hivm.address_space<gm>> to memref<4x512xf16, strided<[512, 1], offset: 0>, #hivm.address_space<gm>>
          hivm.hir.load ins(%B_2 : memref<4x512xf16, strided<[512, 1], offset: 0>, #hivm.address_space<gm>>) outs(%B_L1_2 : memref<4x512xf16, strided<[512, 1], offset: 0>, #hivm.address_space<cbuf>>)
          hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_MTE1>, <EVENT_ID1>]  //: set(MTE2, MTE1, 1)
          hivm.hir.wait_flag[<PIPE_MTE2>, <PIPE_MTE1>, <EVENT_ID1>]  //: wait(MTE2, MTE1, 1)
          scf.for %k_1 = %c0 to %c1 step %c1 {  // for k_1 in 1
            hivm.hir.wait_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID0>]  //: wait(MTE1, MTE2, 0)
            //: copy_gm_l1_nd2nz(dst=A_L1[0], src=A[m_c * 800], rows=min(37 - m_c * 16, 16), cols=50, src_stride=50, dst_rows=16)
            %v = arith.muli %block, %c800 : index
            %v_2 = arith.muli %block, %c16 : index
            %v_3 = arith.subi %c37, %v_2 : index
            %v_4 = arith.minsi %v_3, %c16 : index
            %A_2 = memref.reinterpret_cast %A to offset: [%v], sizes: [%v_4, 50], strides: [50, 1] : memref<1850xf16, #hivm.address_space<gm>> to memref<?x50xf16, strided<[50, 1], offset: ?>, #hivm.address_space<gm>>
            %A_L1_2 = memref.reinterpret_cast %A_L1 to offset: [0], sizes: [4, 1, 16, 16], strides: [256, 256, 16, 1] : memref<1024xf16, #hivm.address_space<cbuf>> to memref<4x1x16x16xf16, strided<[256, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>
            hivm.hir.nd2nz {dst_continuous} ins(%A_2 : memref<?x50xf16, strided<[50, 1], offset: ?>, #hivm.address_space<gm>>) outs(%A_L1_2 : memref<4x1x16x16xf16, strided<[256, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>)
            hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_MTE1>, <EVENT_ID0>]  //: set(MTE2, MTE1, 0)
            hivm.hir.wait_flag[<PIPE_MTE2>, <PIPE_MTE1>, <EVENT_ID0>]  //: wait(MTE2, MTE1, 0)
            //: mmad_bias(dst=C[0], a=A_L0A.A_L0A_slot[0], b=B_L0B.B_L0B_slot[0], bias=bias_BT[0], m=min(37 - m_c * 16, 16), n=21, k=50, init=1, unit=1)
            %C_2 = memref.reinterpret_cast %C to offset: [0], sizes: [2, 1, 16, 16], strides: [256, 256, 16, 1] : memref<512xf32, #hivm.address_space<cc>> to memref<2x1x16x16xf32, strided<[256, 256, 16, 1], offset: 0>, #hivm.address_space<cc>>
            %bias_L1_3 = memref.reinterpret_cast %bias_L1 to offset: [0], sizes: [21], strides: [1] : memref<128xf32, #hivm.address_space<cbuf>> to memref<21xf32, strided<[1], offset: 0>, #hivm.address_space<cbuf>>
            %zeros_2 = memref.reinterpret_cast %zeros to offset: [0], sizes: [1, 1, 16, 16], strides: [256, 256, 16, 1] : memref<512xf16, #hivm.address_space<cbuf>> to memref<1x1x16x16xf16, strided<[256, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>
            %B_L1_3 = memref.reinterpret_cast %B_L1 to offset: [0], sizes: [2, 1, 16, 16], strides: [256, 256, 16, 1] : memref<2048xf16, #hivm.address_space<cbuf>> to memref<2x1x16x16xf16, strided<[256, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>
            hivm.hir.mmadL1 ins(%zeros_2, %B_L1_3, %yes, %v_4, %c16, %c21, %bias_L1_3 : memref<1x1x16x16xf16, strided<[256, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>, memref<2x1x16x16xf16, strided<[256, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>, i1, index, index, index, memref<21xf32, strided<[1], offset: 0>, #hivm.address_space<cbuf>>) outs(%C_2 : memref<2x1x16x16xf32, strided<[256, 256, 16, 1], offset: 0>, #hivm.address_space<cc>>)
            %B_L1_4 = memref.reinterpret_cast %B_L1 to offset: [0], sizes: [4, 2, 16, 16], strides: [512, 256, 16, 1] : memref<2048xf16, #hivm.address_space<cbuf>> to memref<4x2x16x16xf16, strided<[512, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>
            hivm.hir.mmadL1 {b_transpose} ins(%A_L1_2, %B_L1_4, %no, %v_4, %c50, %c21 : memref<4x1x16x16xf16, strided<[256, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>, memref<4x2x16x16xf16, strided<[512, 256, 16, 1], offset: 0>, #hivm.address_space<cbuf>>, i1, index, index, index) outs(%C_2 : memref<2x1x16x16xf32, strided<[256, 256, 16, 1], offset: 0>, #hivm.address_space<cc>>)
            hivm.hir.set_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID0>]  //: set(MTE1, MTE2, 0)
          }
          hivm.hir.set_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID1>]  //: set(MTE1, MTE2, 1)
        }
        hivm.hir.set_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID2>]  //: set(MTE1, MTE2, 2)
        hivm.hir.set_flag[<PIPE_M>, <PIPE_FIX>, <EVENT_ID0>]  //: set(M, FIXP, 0)
        hivm.hir.wait_flag[<PIPE_M>, <PIPE_FIX>, <EVENT_ID0>]  //: wait(M, FIXP, 0)
        //: fixpipe_nd(dst=Y[m_c * 336], src=C[0], m=min(37 - m_c * 16, 16), n=21, src_rows=16, dst_stride=21, relu=1, unit=1)
        %C_3 = memref.reinterpret_cast %C to offset: [0], sizes: [2, 1, 16, 16], strides: [256, 256, 16, 1] : memref<512xf32, #hivm.address_space<cc>> to memref<2x1x16x16xf32, strided<[256, 256, 16, 1], offset: 0>, #hivm.address_space<cc>>
        %v_5 = arith.muli %block, %c336 : index
        %v_6 = arith.muli %block, %c16 : index
        %v_7 = arith.subi %c37, %v_6 : index
        %v_8 = arith.minsi %v_7, %c16 : index
        %Y_2 = memref.reinterpret_cast %Y to offset: [%v_5], sizes: [%v_8, 21], strides: [21, 1] : memref<777xf16, #hivm.address_space<gm>> to memref<?x21xf16, strided<[21, 1], offset: ?>, #hivm.address_space<gm>>
        hivm.hir.fixpipe {dma_mode = #hivm.dma_mode<nz2nd>, pre_quant = #hivm.fixpipe_pre_quant_mode<F322F16>, pre_relu = #hivm.fixpipe_pre_relu_mode<NORMAL_RELU>} ins(%C_3 : memref<2x1x16x16xf32, strided<[256, 256, 16, 1], offset: 0>, #hivm.address_space<cc>>) outs(%Y_2 : memref<?x21xf16, strided<[21, 1], offset: ?>, #hivm.address_space<gm>>)
        hivm.hir.set_flag[<PIPE_FIX>, <PIPE_M>, <EVENT_ID0>]  //: set(FIXP, M, 0)
      }
    }
    scf.for %drain_2 = %c0 to %c1 step %c1 {  // for drain_2 in 1
      hivm.hir.wait_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID0>]  //: wait(MTE1, MTE2, 0)
    }
    scf.for %drain_3 = %c0 to %c1 step %c1 {  // for drain_3 in 1
      hivm.hir.wait_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID1>]  //: wait(MTE1, MTE2, 1)
    }
    scf.for %drain_4 = %c0 to %c1 step %c1 {  // for drain_4 in 1
      hivm.hir.wait_flag[<PIPE_FIX>, <PIPE_M>, <EVENT_ID0>]  //: wait(FIXP, M, 0)
    }
    scf.for %drain_5 = %c0 to %c1 step %c1 {  // for drain_5 in 1
      hivm.hir.wait_flag[<PIPE_MTE1>, <PIPE_MTE2>, <EVENT_ID2>]  //: wait(MTE1, MTE2, 2)
    }
    hivm.hir.pipe_barrier[<PIPE_ALL>]
    return
  }
}
