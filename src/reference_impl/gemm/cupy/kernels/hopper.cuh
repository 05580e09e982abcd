// The tactics on sm_90a: operands that were expanded to half, exactly, and Hopper's tensor cores.
//
// A K tile of this machine is half as many values as the tactic's. A tile of 128 × 128 × 256 halves
// would take all shared memory for one stage, and a pipeline needs two.
#pragma once

#include <cstdint>

#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"

#include "product.h"

namespace nvfp4 {

template <int TileM, int TileN, int TileK, bool Swap, class Scheduler>
struct Kernel {
  using Value = cutlass::half_t;
  using Result = cutlass::bfloat16_t;
  using Tile = cute::Shape<cute::Int<TileM>, cute::Int<TileN>, cute::Int<TileK / 2>>;
  using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
  using ResultLayout =
      cute::conditional_t<Swap, cutlass::layout::ColumnMajor, cutlass::layout::RowMajor>;

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, ResultLayout, 8, Result,
      ResultLayout, 8, cutlass::epilogue::TmaWarpSpecializedCooperative>::CollectiveOp;

  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Value, cutlass::layout::RowMajor, 8,
      Value, cutlass::layout::ColumnMajor, 8, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename Epilogue::SharedStorage))>,
      cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;

  using Device = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop,
                                                      Epilogue, Scheduler>;

  // `left` lies along the tile's first side.
  static typename Mainloop::Arguments mainloop(const nvfp4_product& product, int, int,
                                               const void* left, const void* right, const void*,
                                               const void*) {
    const auto stride = cute::make_stride(static_cast<int64_t>(product.k), cute::_1{}, int64_t{0});
    return {static_cast<const Value*>(left), stride, static_cast<const Value*>(right), stride};
  }
};

}  // namespace nvfp4
