// Input rows of a GEMM of the fused layer kernel. A warp reads only the inputs that it multiplies, chunk by chunk, the
// next one while it multiplies. It keeps them in shared memory in mma.sync order. The RMSNorm factor of a row is
// applied after the warps' sums are reduced.
// With WEIGHT_INT4 each row becomes two rows of bytes, one of them weighted by 128: 15 bits in all, with a scale for
// each group of inputs. With WEIGHT_E4M3 normed rows are multiplied by a power of two for each group.
// Source: RMSNorm (Zhang and Sennrich 2019); PTX ISA, mma.sync with .s8 and memory consistency model.
#pragma once
#include "tagged-words.cuh"
#include "fused-layer-gemm.cuh"

// With more rows the words would take longer than a grid barrier.
constexpr bool isTagged = ROWS <= 2;
// Inputs of a chunk that a lane loads.
#define LANE_INPUTS (CHUNK / WARP)
#define LANE_PAIRS (LANE_INPUTS / 2)

struct Source {
  const u16* plain; // [numRows, inputs], where there are no words
  const u64* words; // [ROWS, inputs / 2]
  const float* norm;
  bool isX; // to be kept as it is
};

// A chunk in flight from the L2 cache. Only one, because early requests delay the other blocks.
struct Arriving {
  u64 words[ROWS][LANE_PAIRS];
  float norms[LANE_INPUTS];
};

__device__ __forceinline__ float largest_of(const float (&values)[LANE_INPUTS]) {
  float largest = 0.f;
#pragma unroll
  for (int i = 0; i < LANE_INPUTS; i++) largest = fmaxf(largest, fabsf(values[i]));
  return largest;
}

struct RowsOfX {
  int numRows, inputs, lane;
  u32 launch;
  Form::Kept* kept; // [ROWS, inputs], of INT4 [2 * ROWS, inputs], and half a line between
  float* scales;    // [ROWS, inputs / GROUP]

  __device__ __forceinline__ int stride() const { return inputs + Form::rowGap; }

  // The n-th pair of the lane. For INT4 codes, thread t takes inputs 2t, 2t + 8, 2t + 1 and 2t + 9 of 16.
  __device__ __forceinline__ int place(int chunk, int n) const {
    if constexpr (hasInt4Weights) return chunk * CHUNK + (lane >> 1) * 16 + (lane & 1) * 4 + (n >> 1) * 8 + (n & 1) * 2;
    return chunk * CHUNK + lane * LANE_INPUTS + 2 * n;
  }

  __device__ __forceinline__ void look(const Source& source, int row, int chunk, u64 (&words)[LANE_PAIRS]) const {
    const u64* from = source.words + (u64)row * (inputs / 2);
    if constexpr (LANE_PAIRS == 1) {
      look_at_word(from + place(chunk, 0) / 2, words[0]);
    } else {
#pragma unroll
      for (int n = 0; n < LANE_PAIRS; n += 2) look_at_words(from + place(chunk, n) / 2, words[n], words[n + 1]);
    }
  }

  __device__ __forceinline__ void ask_plain(const Source& source, int row, int chunk, u64 (&pairs)[LANE_PAIRS]) const {
    const u16* from = source.plain + (u64)row * inputs;
    if constexpr (LANE_PAIRS == 1) {
      pairs[0] = __ldcg(reinterpret_cast<const u32*>(from + place(chunk, 0)));
    } else {
#pragma unroll
      for (int n = 0; n < LANE_PAIRS; n += 2) {
        const uint2 two = __ldcg(reinterpret_cast<const uint2*>(from + place(chunk, n)));
        pairs[n] = two.x;
        pairs[n + 1] = two.y;
      }
    }
  }

  __device__ __forceinline__ void ask_norms(const float* norm, int chunk, float (&norms)[LANE_INPUTS]) const {
    if constexpr (LANE_PAIRS == 1) {
      const float2 two = *reinterpret_cast<const float2*>(norm + place(chunk, 0));
      norms[0] = two.x;
      norms[1] = two.y;
    } else {
#pragma unroll
      for (int n = 0; n < LANE_PAIRS; n += 2) {
        const float4 four = *reinterpret_cast<const float4*>(norm + place(chunk, n));
        norms[2 * n] = four.x;
        norms[2 * n + 1] = four.y;
        norms[2 * n + 2] = four.z;
        norms[2 * n + 3] = four.w;
      }
    }
  }

  __device__ __forceinline__ void ask(const Source& source, int chunk, Arriving& arriving) const {
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
      if (row >= numRows) break;
      if (isTagged && source.words != nullptr)
        look(source, row, chunk, arriving.words[row]);
      else
        ask_plain(source, row, chunk, arriving.words[row]);
    }
    if (source.norm != nullptr) ask_norms(source.norm, chunk, arriving.norms);
  }

  __device__ __forceinline__ bool are_there(const u64 (&words)[LANE_PAIRS]) const {
    bool all = true;
#pragma unroll
    for (int n = 0; n < LANE_PAIRS; n++) all = all && is_of_launch(words[n], launch);
    return all;
  }

  // Until all tagged words that were asked for are there.
  __device__ __forceinline__ void wait(const Source& source, int chunk, Arriving& arriving) const {
    if (source.words == nullptr) return;
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
      if (row >= numRows) break;
      u64(&words)[LANE_PAIRS] = arriving.words[row];
      if (are_there(words)) continue;
      const u64 start = cycles();
      do {
        look(source, row, chunk, words);
        trap_when_late(start);
      } while (!are_there(words));
    }
  }

  // Adds the squares of what has arrived to those of its row.
  __device__ __forceinline__ void keep(const Source& source, int chunk, const Arriving& arriving, float (&squares)[ROWS]) const {
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
      if (row >= numRows) break;
      if constexpr (!hasInt4Weights) {
        if (source.isX) {
          store_pairs(row, chunk, arriving.words[row]);
          keep_scale(row, chunk, 1.f);
          continue;
        }
      }
      float values[LANE_INPUTS];
#pragma unroll
      for (int n = 0; n < LANE_PAIRS; n++) {
        values[2 * n] = bf16_low((u32)arriving.words[row][n]);
        values[2 * n + 1] = bf16_high((u32)arriving.words[row][n]);
      }
      if (source.norm != nullptr) {
#pragma unroll
        for (int i = 0; i < LANE_INPUTS; i++) {
          squares[row] += values[i] * values[i];
          values[i] *= arriving.norms[i];
        }
      }
      if constexpr (hasInt4Weights)
        keep_bytes(row, chunk, values);
      else if constexpr (hasE4m3Weights)
        keep_f16(row, chunk, values, source.norm != nullptr);
      else
        keep_bf16(row, chunk, values);
    }
    __syncwarp();
  }

  // By one lane of those that bring the group: half a warp has a group of INT4, a warp one of FP8, and bf16 has none.
  __device__ __forceinline__ void keep_scale(int row, int group, float scale) const {
    if (hasInt4Weights ? (lane & 15) == 0 : hasE4m3Weights && lane == 0) scales[row * (inputs / GROUP) + group] = scale;
  }

  __device__ __forceinline__ void keep_bytes(int row, int chunk, const float (&values)[LANE_INPUTS]) const {
    constexpr float largestCode = 16256.f;
    float largest = largest_of(values);
    // Half a warp has a group.
#pragma unroll
    for (int offset = 8; offset > 0; offset >>= 1) largest = fmaxf(largest, __shfl_xor_sync(FULL_MASK, largest, offset));
    largest = fmaxf(largest, 1e-30f);
    keep_scale(row, chunk * (CHUNK / GROUP) + (lane >> 4), largest / (16.f * largestCode));
    const float factor = largestCode / largest;
    const int set = lane >> 1;
    Form::Kept* to = kept + 2 * row * stride() + chunk * CHUNK + (set >> 2) * Int4Form::block + (lane & 1) * 32 + (set & 3) * 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      u32 high = 0, low = 0;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int code = __float2int_rn(values[2 * half + (i >> 1) + 4 * (i & 1)] * factor);
        const int upper = (code + 64) >> 7;
        high |= (u32)(upper & 255) << (8 * i);
        low |= (u32)((code - 128 * upper) & 255) << (8 * i);
      }
      *reinterpret_cast<u32*>(to + half * 16) = high;
      *reinterpret_cast<u32*>(to + stride() + half * 16) = low;
    }
  }

  __device__ __forceinline__ void store_pairs(int row, int chunk, const u64 (&pairs)[LANE_PAIRS]) const {
    Form::Kept* to = kept + row * stride() + place(chunk, 0);
    if constexpr (LANE_PAIRS == 1)
      *reinterpret_cast<u32*>(to) = (u32)pairs[0];
    else
      *reinterpret_cast<uint2*>(to) = make_uint2((u32)pairs[0], (u32)pairs[1]);
  }

  __device__ __forceinline__ void keep_f16(int row, int chunk, const float (&values)[LANE_INPUTS], bool isScaled) const {
    u64 pairs[LANE_PAIRS];
    float factor = 1.f, scale = 1.f;
    if (isScaled) {
      // To 256 or more, by a power of two.
      const u32 exponent = max(__float_as_uint(warp_max(largest_of(values))) >> 23, 20u);
      factor = __uint_as_float((262u - exponent) << 23);
      scale = __uint_as_float((exponent - 8u) << 23);
    }
    keep_scale(row, chunk, scale);
#pragma unroll
    for (int n = 0; n < LANE_PAIRS; n++)
      pairs[n] = pack_f16(F16Input::clamped(values[2 * n] * factor), F16Input::clamped(values[2 * n + 1] * factor));
    store_pairs(row, chunk, pairs);
  }

  __device__ __forceinline__ void keep_bf16(int row, int chunk, const float (&values)[LANE_INPUTS]) const {
    u64 pairs[LANE_PAIRS];
#pragma unroll
    for (int n = 0; n < LANE_PAIRS; n++) pairs[n] = pack_bf16(values[2 * n], values[2 * n + 1]);
    store_pairs(row, chunk, pairs);
  }
};
