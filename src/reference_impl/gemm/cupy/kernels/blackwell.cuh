// The tactics on sm_120a and sm_121a: block-scaled FP4 tensor cores, on the operands as they are.
#pragma once

#include <cstdint>

#include "cutlass/cutlass.h"
#include "cutlass/detail/sm100_blockscaled_layout.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"

#include "product.h"

namespace nvfp4 {

template <int TileM, int TileN, int TileK, bool Swap, class Scheduler>
struct Kernel {
  using Pair = cutlass::nv_float4_t<cutlass::float_e2m1_t>;
  using Result = cutlass::bfloat16_t;
  using Tile = cute::Shape<cute::Int<TileM>, cute::Int<TileN>, cute::Int<TileK>>;
  using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
  using ResultLayout =
      cute::conditional_t<Swap, cutlass::layout::ColumnMajor, cutlass::layout::RowMajor>;

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm120, cutlass::arch::OpClassBlockScaledTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, ResultLayout, 8, Result,
      ResultLayout, 8, cutlass::epilogue::collective::EpilogueScheduleAuto>::CollectiveOp;

  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm120, cutlass::arch::OpClassBlockScaledTensorOp, Pair,
      cutlass::layout::RowMajor, 32, Pair, cutlass::layout::ColumnMajor, 32, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename Epilogue::SharedStorage))>,
      cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;

  using Device = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop,
                                                      Epilogue, Scheduler>;

  // `left` lies along the tile's first side.
  static typename Mainloop::Arguments mainloop(const nvfp4_product& product, int rows, int columns,
                                               const void* left, const void* right,
                                               const void* left_scales, const void* right_scales) {
    const auto stride = cute::make_stride(static_cast<int64_t>(product.k), cute::_1{}, int64_t{0});
    using Value = typename Mainloop::ArrayElementA;
    using Scale = typename Mainloop::ElementSF;
    using Order = typename Mainloop::Sm1xxBlkScaledConfig;
    auto shape = cute::make_shape(rows, columns, product.k, 1);
    return {static_cast<const Value*>(left), stride, static_cast<const Value*>(right), stride,
            static_cast<const Scale*>(left_scales), Order::tile_atom_to_shape_SFA(shape),
            static_cast<const Scale*>(right_scales), Order::tile_atom_to_shape_SFB(shape)};
  }
};

}  // namespace nvfp4
