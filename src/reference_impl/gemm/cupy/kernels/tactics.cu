// The tactics of one tile, as C functions: nvfp4_run_<id> and nvfp4_workspace_<id>.
//
// Compiled for each tile. NVFP4_TILE_M, _N and _K are its sides, bit i of NVFP4_VARIANTS asks for
// the i-th variant, and NVFP4_ID_i is its tactic id.
#if NVFP4_ARCHITECTURE == 90
#include "hopper.cuh"
#else
#include "blackwell.cuh"
#endif

#include "cutlass/gemm/device/gemm_universal_adapter.h"

#include "product.h"

namespace {

using DataParallel = cutlass::gemm::PersistentScheduler;
using StreamK = cutlass::gemm::StreamKScheduler;

template <bool Swap, class Scheduler>
struct Tactic {
  using Kernel = nvfp4::Kernel<NVFP4_TILE_M, NVFP4_TILE_N, NVFP4_TILE_K, Swap, Scheduler>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<typename Kernel::Device>;

  // Swap-AB computes B·Aᵀ, n × m, and writes it column by column: the same bytes in memory.
  static typename Gemm::Arguments arguments(const nvfp4_product& product) {
    const int rows = Swap ? product.n : product.m;
    const int columns = Swap ? product.m : product.n;
    typename Gemm::Arguments all{};
    all.mode = cutlass::gemm::GemmUniversalMode::kGemm;
    all.problem_shape = cute::make_shape(rows, columns, product.k, 1);
    all.mainloop = Swap ? Kernel::mainloop(product, rows, columns, product.b, product.a,
                                           product.b_scales, product.a_scales)
                        : Kernel::mainloop(product, rows, columns, product.a, product.b,
                                           product.a_scales, product.b_scales);
    all.epilogue.thread.alpha_ptr = product.alpha;
    all.epilogue.thread.beta = 0;
    all.epilogue.ptr_D = static_cast<typename Kernel::Result*>(product.out);
    const int64_t pitch = product.n;
    if constexpr (Swap) {
      all.epilogue.dD = cute::make_stride(cute::_1{}, pitch, int64_t{0});
    } else {
      all.epilogue.dD = cute::make_stride(pitch, cute::_1{}, int64_t{0});
    }
    all.hw_info.device_id = product.device;
    all.hw_info.sm_count = product.multiprocessors;
    return all;
  }

  static size_t workspace(const nvfp4_product& product) {
    return Gemm::get_workspace_size(arguments(product));
  }

  static int run(const nvfp4_product& product, cudaStream_t stream) {
    const nvfp4::OnDevice here(product.device);
    const auto all = arguments(product);
    if (Gemm::get_workspace_size(all) > product.workspace_bytes) {
      return -static_cast<int>(cutlass::Status::kErrorWorkspaceNull);
    }
    cutlass::Status status = Gemm::can_implement(all);
    if (status == cutlass::Status::kSuccess) {
      Gemm gemm;
      status = gemm.initialize(all, product.workspace, stream);
      if (status == cutlass::Status::kSuccess) status = gemm.run(stream);
    }
    const int error = nvfp4::last_error();
    return error ? error : -static_cast<int>(status);
  }
};

}  // namespace

#define NVFP4_NAME_(stem, id) stem##id
#define NVFP4_NAME(stem, id) NVFP4_NAME_(stem, id)

#define NVFP4_TACTIC(id, swap, scheduler)                                                      \
  NVFP4_EXPORT size_t NVFP4_NAME(nvfp4_workspace_, id)(const nvfp4_product* product) {         \
    return Tactic<swap, scheduler>::workspace(*product);                                       \
  }                                                                                            \
  NVFP4_EXPORT int NVFP4_NAME(nvfp4_run_, id)(const nvfp4_product* product, void* stream) {    \
    return Tactic<swap, scheduler>::run(*product, static_cast<cudaStream_t>(stream));          \
  }

#if NVFP4_VARIANTS & 1
NVFP4_TACTIC(NVFP4_ID_0, true, DataParallel)
#endif
#if NVFP4_VARIANTS & 2
NVFP4_TACTIC(NVFP4_ID_1, false, DataParallel)
#endif
#if NVFP4_VARIANTS & 4
NVFP4_TACTIC(NVFP4_ID_2, true, StreamK)
#endif
#if NVFP4_VARIANTS & 8
NVFP4_TACTIC(NVFP4_ID_3, false, StreamK)
#endif
