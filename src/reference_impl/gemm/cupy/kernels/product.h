// The C interface of the kernel library. Every call queues its work on the stream and returns:
// 0, a CUDA error (positive) or a CUTLASS status (negative). A failed call leaves no error behind
// that a later call would find.
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

#define NVFP4_ABI 1
#define NVFP4_EXPORT extern "C" __attribute__((visibility("default")))

// alpha * A·Bᵀ to `out`, m × n in bfloat16, rows n apart. A has m rows and B has n, both K-major;
// n is a multiple of 8, and B's storage has that many rows.
struct nvfp4_product {
  int m;
  int n;
  int k;
  int device;
  int multiprocessors;
  const void* a;         // values in the form that this architecture multiplies
  const void* b;
  const void* a_scales;  // E4M3 in 128×4 order; null where the values are expanded
  const void* b_scales;
  const float* alpha;    // on the device
  void* out;
  void* workspace;
  size_t workspace_bytes;
};

namespace nvfp4 {

// What the launches before this left behind; reading it clears it.
inline int last_error() { return static_cast<int>(cudaGetLastError()); }

// The card is the calling thread's while this lives, and then again the one that was before.
class OnDevice {
 public:
  explicit OnDevice(int device) : device_(device), before_(device) {
    cudaGetDevice(&before_);
    if (before_ != device_) cudaSetDevice(device_);
  }
  ~OnDevice() {
    if (before_ != device_) cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int device_;
  int before_;
};

}  // namespace nvfp4
