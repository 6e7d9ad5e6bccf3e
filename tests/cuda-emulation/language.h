// What a kernel takes for granted: the words of CUDA C++, its built-in types and functions. Knows no inline assembly.
#pragma once
#include "threads.h"

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __shared__ static __attribute__((section("emulated_shared")))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define threadIdx (emulated::current->index)
#define blockIdx emulated::blockIndex
#define blockDim emulated::blockSize
#define gridDim emulated::gridSize

struct __align__(8) float2 { float x, y; };
struct float3 { float x, y, z; };
struct __align__(16) float4 { float x, y, z, w; };
struct __align__(8) int2 { int x, y; };
struct __align__(16) int4 { int x, y, z, w; };
struct __align__(8) uint2 { unsigned x, y; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

template <class To, class From> To emulated_bits(From value) {
  To bits{};
  memcpy(&bits, &value, sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));
  return bits;
}
inline unsigned __float_as_uint(float value) { return emulated_bits<unsigned>(value); }
inline float __uint_as_float(unsigned value) { return emulated_bits<float>(value); }

// ---- threads together ----

inline void __syncthreads() { emulated::meet_block(); }
inline void __syncwarp() { emulated::meet_warp("__syncwarp"); }
inline void __threadfence() {}
inline void __threadfence_system() {}
[[noreturn]] inline void __trap() { emulated::fail("traps"); }

namespace emulated {
static uint64_t told[2][maxWarps][warpThreads];

// What every thread of the warp tells, by lane.
template <class T> const uint64_t* tell_warp(const char* instruction, T value) {
  const int warp = warp_number(), phase = warps[warp].phase;
  told[phase][warp][lane()] = emulated_bits<uint64_t>(value);
  meet_warp(instruction);
  return told[phase][warp];
}

inline bool is_running(int lane) {
  const int number = warp_number() * warpThreads + lane;
  return number < (int)(blockSize.x * blockSize.y * blockSize.z) && threads[number].state != State::done;
}

// Beyond the warp a thread gets its own number back.
template <class T> T shuffle(const char* instruction, T value, int from) {
  if (from >= 0 && from < warpThreads && !is_running(from)) fail("%s asks lane %d, which has ended", instruction, from);
  const uint64_t* values = tell_warp(instruction, value);
  return from >= 0 && from < warpThreads ? emulated_bits<T>(values[from]) : value;
}
} // namespace emulated

template <class T> T __shfl_sync(unsigned, T value, int from) { return emulated::shuffle("__shfl_sync", value, from & 31); }
template <class T> T __shfl_xor_sync(unsigned, T value, int bits) {
  return emulated::shuffle("__shfl_xor_sync", value, emulated::lane() ^ bits);
}
template <class T> T __shfl_up_sync(unsigned, T value, int by) {
  return emulated::shuffle("__shfl_up_sync", value, emulated::lane() - by);
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  // Who has ended by now does not vote.
  unsigned voters = 0;
  for (int i = 0; i < emulated::warpThreads; i++) voters |= emulated::is_running(i) ? 1u << i : 0u;
  const uint64_t* votes = emulated::tell_warp("__ballot_sync", vote ? 1 : 0);
  unsigned all = 0;
  for (int i = 0; i < emulated::warpThreads; i++)
    if ((voters >> i & 1u) != 0 && (uint32_t)votes[i] != 0) all |= 1u << i;
  return all;
}
inline unsigned __reduce_add_sync(unsigned, unsigned value) {
  const uint64_t* values = emulated::tell_warp("__reduce_add_sync", value);
  unsigned sum = 0;
  for (int i = 0; i < emulated::warpThreads; i++) if (emulated::is_running(i)) sum += (unsigned)values[i];
  return sum;
}
inline bool __any_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) != 0; }

template <class T> T atomicAdd(T* at, T value) {
  const T old = *at;
  *at = old + value;
  return old;
}
template <class T> T atomicMin(T* at, T value) {
  const T old = *at;
  if (value < old) *at = value;
  return old;
}
template <class T> T __ldcg(const T* at) { return *at; }

// ---- numbers ----

template <class T> T min(T a, T b) { return b < a ? b : a; }
template <class T> T max(T a, T b) { return a < b ? b : a; }
inline float __expf(float x) { return expf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.f / sqrtf(x); }
inline int __float2int_rn(float x) { return (int)nearbyintf(x); }
inline unsigned __float2uint_rn(float x) { return (unsigned)nearbyintf(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = low | (uint64_t)high << 32;
  unsigned out = 0;
  for (int i = 0; i < 4; i++) out |= (unsigned)(bytes >> (8 * (selector >> (4 * i) & 7u)) & 255u) << (8 * i);
  return out;
}

inline uint64_t __cvta_generic_to_shared(const void* at) {
  const uint8_t* byte = (const uint8_t*)at;
  if (byte < emulated::dynamicShared || byte >= emulated::sharedEnd) emulated::fail("%p is not shared memory", at);
  return (uint64_t)(byte - emulated::dynamicShared);
}
