// Everything beside the product: quantize, swizzle scales, expand, make operands to measure, and keep
// the device busy.
//
// Compiled without fast math: divisions are IEEE divisions, subnormals stay, and the quantizer's
// bytes are those of the reference on the CPU.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "product.h"

namespace {

constexpr int kBlock = 16;        // values along K that share a scale
constexpr int kThreads = 256;
constexpr int kWordsPerThread = 2;
constexpr int kMostThreads = 512;
constexpr float kLargestScale = 448.0f;
constexpr float kLargestValue = 6.0f;

// 128×4 order: see scale_layout.py, whose formula this is.
__device__ size_t swizzled_offset(int row, int column, int columns) {
  const size_t atoms = (columns + 3) / 4;
  const size_t atom = static_cast<size_t>(row / 128) * atoms + column / 4;
  return atom * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
}

// To nearest, ties to even, beyond ±6 saturates, and what rounds to zero keeps its sign.
__device__ unsigned to_e2m1(float number) {
  const float size = fabsf(number);
  const unsigned code = (size > 0.25f) + (size >= 0.75f) + (size > 1.25f) + (size >= 1.75f) +
                        (size > 2.5f) + (size >= 3.5f) + (size > 5.0f);
  return code | (signbit(number) ? 8u : 0u);
}

__device__ __half from_e4m3(uint8_t scale) {
  return __half(__nv_cvt_fp8_to_halfraw(scale, __NV_E4M3));
}

// Two neighbours along K, in the low byte. The exponent and the mantissa bit of E2M1 are those of a
// half, 2^14 too small; both products are exact.
__device__ unsigned expand(unsigned pair, __half2 scale) {
  unsigned small = (pair & 0x07) << 9 | (pair & 0x08) << 12 | (pair & 0x70) << 21 | (pair & 0x80) << 24;
  const __half2 whole = __hmul2(reinterpret_cast<__half2&>(small), __half2half2(__ushort_as_half(0x7400)));
  const __half2 scaled = __hmul2(whole, scale);  // 0x7400 is 2^14
  return reinterpret_cast<const unsigned&>(scaled);
}

__global__ void largest_magnitude(const float* numbers, size_t count, unsigned* largest) {
  unsigned mine = 0;
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    mine = max(mine, __float_as_uint(fabsf(numbers[i])));  // bits of positive floats are ordered
  }
  mine = __reduce_max_sync(0xffffffffu, mine);
  if (threadIdx.x % 32 == 0) atomicMax(largest, mine);
}

// One thread a block of 16. Direct: the scale goes to its final place at once.
template <bool Direct>
__global__ void quantize(const float* numbers, float global_scale, int columns, uint8_t* values,
                         uint8_t* scales) {
  const int row = blockIdx.x;
  for (int column = threadIdx.x; column < columns; column += blockDim.x) {
    const size_t place = static_cast<size_t>(row) * columns + column;
    const float* block = numbers + place * kBlock;
    float largest = 0;
    for (int i = 0; i < kBlock; ++i) largest = fmaxf(largest, fabsf(block[i]));
    const float wanted = __fmul_rn(__fdiv_rn(largest, kLargestValue), global_scale);
    const uint8_t scale = __nv_cvt_float_to_fp8(fminf(wanted, kLargestScale), __NV_SATFINITE, __NV_E4M3);
    // Numbers under a zero scale are so small that they become zeros over 1, and keep their sign.
    const float divisor = scale ? __half2float(from_e4m3(scale)) : 1.0f;
    for (int i = 0; i < kBlock; i += 2) {
      const unsigned low = to_e2m1(__fdiv_rn(__fmul_rn(block[i], global_scale), divisor));
      const unsigned high = to_e2m1(__fdiv_rn(__fmul_rn(block[i + 1], global_scale), divisor));
      values[place * (kBlock / 2) + i / 2] = static_cast<uint8_t>(low | high << 4);
    }
    scales[Direct ? swizzled_offset(row, column, columns) : place] = scale;
  }
}

__global__ void swizzle(const uint8_t* linear, int columns, uint8_t* swizzled) {
  const int row = blockIdx.x;
  for (int column = threadIdx.x; column < columns; column += blockDim.x) {
    swizzled[swizzled_offset(row, column, columns)] = linear[static_cast<size_t>(row) * columns + column];
  }
}

// A block works on one row. A thread takes words of 8 values, all loaded before the first is used: 4
// bytes in and 16 out for each, next to those of its neighbours. Both stream past the cache, which a
// weight is larger than.
__global__ void expand_row(const unsigned* values, const uint8_t* scales, int row_words, uint4* expanded) {
  const int row = blockIdx.x;
  const size_t start = static_cast<size_t>(row) * row_words;
  const int first = blockIdx.y * kWordsPerThread * blockDim.x + threadIdx.x;
  unsigned words[kWordsPerThread] = {};
  uint8_t bytes[kWordsPerThread] = {};
#pragma unroll
  for (int i = 0; i < kWordsPerThread; ++i) {
    const int word = first + i * blockDim.x;
    if (word < row_words) {
      words[i] = __ldcs(values + start + word);
      bytes[i] = scales[swizzled_offset(row, word / 2, row_words / 2)];
    }
  }
#pragma unroll
  for (int i = 0; i < kWordsPerThread; ++i) {
    const int word = first + i * blockDim.x;
    if (word < row_words) {
      const __half2 scale = __half2half2(from_e4m3(bytes[i]));
      const uint4 eight = make_uint4(expand(words[i], scale), expand(words[i] >> 8, scale),
                                     expand(words[i] >> 16, scale), expand(words[i] >> 24, scale));
      __stcs(expanded + start + word, eight);
    }
  }
}

// The bits of a counter, well mixed: what a thread writes depends on its place and the seed alone.
__device__ unsigned scattered(unsigned long long seed, size_t place) {
  unsigned long long bits = seed * 0x9E3779B97F4A7C15ull + place + 1;
  bits = (bits ^ bits >> 33) * 0xFF51AFD7ED558CCDull;
  bits = (bits ^ bits >> 33) * 0xC4CEB9FE1A85EC53ull;
  return static_cast<unsigned>(bits >> 32);
}

__global__ void random_values(unsigned long long seed, size_t words, unsigned* values) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += stride) {
    values[i] = scattered(seed, i);
  }
}

// E4M3 from 2^-6 to 240: scales so unlike that float32 sums show their order.
__global__ void random_scales(unsigned long long seed, int columns, uint8_t* scales) {
  const int row = blockIdx.x;
  for (int column = threadIdx.x; column < columns; column += blockDim.x) {
    const unsigned bits = scattered(~seed, static_cast<size_t>(row) * columns + column);
    scales[swizzled_offset(row, column, columns)] = static_cast<uint8_t>(0x08 + bits % 0x70);
  }
}

// A loop of short sleeps, because one sleep may not be longer than a millisecond.
__global__ void sleep_microseconds(int microseconds) {
  for (int i = 0; i < microseconds; ++i) __nanosleep(1000);
}

cudaStream_t on(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

NVFP4_EXPORT int nvfp4_abi() { return NVFP4_ABI; }

NVFP4_EXPORT int nvfp4_architecture() { return NVFP4_ARCHITECTURE; }

NVFP4_EXPORT size_t nvfp4_product_bytes() { return sizeof(nvfp4_product); }

// Makes the device the calling thread's, for this library, whose CUDA runtime is its own.
NVFP4_EXPORT int nvfp4_use_device(int device) {
  const int error = static_cast<int>(cudaSetDevice(device));
  nvfp4::last_error();
  return error;
}

// `largest` holds 0 and receives the bits of the largest magnitude.
NVFP4_EXPORT int nvfp4_largest(const float* numbers, size_t count, unsigned* largest, void* stream) {
  const size_t blocks = (count + kThreads - 1) / kThreads;
  largest_magnitude<<<static_cast<unsigned>(blocks < 1024 ? blocks : 1024), kThreads, 0, on(stream)>>>(
      numbers, count, largest);
  return nvfp4::last_error();
}

// `scales` is in 128×4 order and zero where it is padding.
NVFP4_EXPORT int nvfp4_quantize_direct(const float* numbers, float global_scale, int rows, int k,
                                       uint8_t* values, uint8_t* scales, void* stream) {
  quantize<true><<<rows, kThreads, 0, on(stream)>>>(numbers, global_scale, k / kBlock, values, scales);
  return nvfp4::last_error();
}

// `scales` is rows × K/16; nvfp4_swizzle brings it into 128×4 order.
NVFP4_EXPORT int nvfp4_quantize_linear(const float* numbers, float global_scale, int rows, int k,
                                       uint8_t* values, uint8_t* scales, void* stream) {
  quantize<false><<<rows, kThreads, 0, on(stream)>>>(numbers, global_scale, k / kBlock, values, scales);
  return nvfp4::last_error();
}

NVFP4_EXPORT int nvfp4_swizzle(const uint8_t* linear, int rows, int k, uint8_t* swizzled, void* stream) {
  swizzle<<<rows, kThreads, 0, on(stream)>>>(linear, k / kBlock, swizzled);
  return nvfp4::last_error();
}

NVFP4_EXPORT int nvfp4_expand(const uint8_t* values, const uint8_t* scales, int rows, int k, void* expanded,
                              void* stream) {
  const int row_words = k / 8;
  const int per_block = kWordsPerThread * kMostThreads;
  const dim3 blocks(rows, (row_words + per_block - 1) / per_block);
  const int per_step = kWordsPerThread * static_cast<int>(blocks.y);  // blocks of a row share evenly
  const int threads = ((row_words + per_step - 1) / per_step + 31) / 32 * 32;
  expand_row<<<blocks, threads, 0, on(stream)>>>(reinterpret_cast<const unsigned*>(values), scales, row_words,
                                                 static_cast<uint4*>(expanded));
  return nvfp4::last_error();
}

// Any E2M1 values under wide scales; `scales` is zero where it is padding.
NVFP4_EXPORT int nvfp4_randomize(unsigned long long seed, int rows, int k, unsigned* values, uint8_t* scales,
                                 void* stream) {
  const size_t words = static_cast<size_t>(rows) * (k / 8);
  const size_t blocks = (words + kThreads - 1) / kThreads;
  random_values<<<static_cast<unsigned>(blocks < 4096 ? blocks : 4096), kThreads, 0, on(stream)>>>(seed, words,
                                                                                                    values);
  random_scales<<<rows, kThreads, 0, on(stream)>>>(seed, k / kBlock, scales);
  return nvfp4::last_error();
}

NVFP4_EXPORT int nvfp4_delay(int microseconds, void* stream) {
  sleep_microseconds<<<1, 1, 0, on(stream)>>>(microseconds);
  return nvfp4::last_error();
}
