// The instructions that kernels write as inline assembly, each a function of its name with the operands in order.
// Conversions are exact to their definition, matrix products sum in f32. An instruction that is missing here does not compile.
#pragma once
#include "language.h"

namespace ptx {
typedef uint32_t u32;
typedef uint16_t u16;

// ---- order of kernels, time, flags of other devices ----

inline void griddepcontrol_wait() {}
inline void griddepcontrol_launch_dependents() {}
// Each look at the clock finds a millisecond gone, so that who waits with patience loses it.
// A thread that reads the clock lets others run.
inline uint64_t clock64() {
  static uint64_t cycles = 0;
  emulated::let_others_run();
  return cycles += 2000000;
}
inline void mov_u64(unsigned long long& to, uint64_t value) { to = value; }
inline void st_release_sys_global_u32(u32* at, u32 value) { *at = value; }
inline void ld_acquire_sys_global_u32(u32& to, const u32* at) { to = *at; }

inline void red_release_gpu_global_add_u32(u32* at, u32 value) { *at += value; }
inline void ld_acquire_gpu_global_u32(u32& to, const u32* at) { to = *at; }
inline void st_relaxed_gpu_global_u64(unsigned long long* at, unsigned long long value) { *at = value; }
inline void ld_relaxed_gpu_global_u64(unsigned long long& to, const unsigned long long* at) { to = *at; }
inline void ld_relaxed_gpu_global_v2_u64(unsigned long long& a, unsigned long long& b, const unsigned long long* at) {
  if ((uintptr_t)at % 16 != 0) emulated::fail("loads 16 bytes from %p", (const void*)at);
  a = at[0], b = at[1];
}
inline void prefetch_global_L2(const void*) {}

inline void load_16_bytes(u32& a, u32& b, u32& c, u32& d, const void* at) {
  if ((uintptr_t)at % 16 != 0) emulated::fail("loads 16 bytes from %p", at);
  u32 words[4];
  memcpy(words, at, 16);
  a = words[0];
  b = words[1];
  c = words[2];
  d = words[3];
}
inline void ld_volatile_global_v4_u32(u32& a, u32& b, u32& c, u32& d, const void* at) { load_16_bytes(a, b, c, d, at); }
inline void ld_global_nc_L1_no_allocate_v4_u32(u32& a, u32& b, u32& c, u32& d, const void* at) {
  load_16_bytes(a, b, c, d, at);
}

// ---- numbers ----

inline float from_bf16(u32 bits) { return __uint_as_float(bits << 16); }
inline u16 to_bf16(float value) {
  const u32 bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline float from_f16(u32 bits) {
  const u32 sign = (bits & 0x8000u) << 16;
  if ((bits & 0x7c00u) == 0x7c00u) return __uint_as_float(sign | 0x7f800000u | (bits & 0x3ffu) << 13);
  // Shifted to the place of a float's bits a number is 2^112 too small, below the smallest exponent too.
  return __uint_as_float(sign | __float_as_uint(__uint_as_float((bits & 0x7fffu) << 13) * 0x1p112f));
}

// The nearest number with so many bits of fraction, ties to even; `smallest` is the exponent where the steps end.
inline float round_fraction(float value, int fractionBits, int smallest) {
  if (value == 0.f || !isfinite(value)) return value;
  const int exponent = ilogbf(value) > smallest ? ilogbf(value) : smallest;
  return (float)ldexp(nearbyint(ldexp(value, fractionBits - exponent)), exponent - fractionBits);
}
// Sign, exponent and fraction of a number that the format holds.
inline u32 pack_bits(float value, int fractionBits, int smallest) {
  const u32 sign = signbit(value) ? 1u : 0u;
  const float size = fabsf(value);
  const int exponentBits = fractionBits == 10 ? 5 : 4;
  const int exponent = size == 0.f || ilogbf(size) < smallest ? smallest : ilogbf(size);
  const u32 steps = (u32)ldexpf(size, fractionBits - exponent);
  return sign << (exponentBits + fractionBits) | (((u32)(exponent - smallest) << fractionBits) + steps);
}
inline u16 to_f16(float value) {
  if (value != value) return 0x7fff;
  const float rounded = round_fraction(value, 10, -14);
  if (fabsf(rounded) > 65504.f) return signbit(value) ? 0xfc00 : 0x7c00;
  return (u16)pack_bits(rounded, 10, -14);
}
inline u32 to_e4m3(float value) {
  if (value != value) return 0x7f;
  return pack_bits(copysignf(fminf(fabsf(round_fraction(value, 3, -6)), 448.f), value), 3, -6);
}
inline float from_e4m3(u32 bits) {
  const int exponent = (int)(bits >> 3 & 15u), fraction = (int)(bits & 7u);
  const float size = exponent == 0 ? ldexpf((float)fraction, -9) : ldexpf(1.f + (float)fraction / 8.f, exponent - 7);
  const float value = (bits & 0x7fu) == 0x7fu ? NAN : size;
  return (bits & 0x80u) != 0 ? -value : value;
}

inline void cvt_rn_bf16x2_f32(u32& to, float high, float low) { to = (u32)to_bf16(high) << 16 | to_bf16(low); }
inline void cvt_rn_f16x2_f32(u32& to, float high, float low) { to = (u32)to_f16(high) << 16 | to_f16(low); }
inline void cvt_f32_f16(float& to, u16 bits) { to = from_f16(bits); }
inline void cvt_rn_f16x2_e4m3x2(u32& to, u16 pair) {
  cvt_rn_f16x2_f32(to, from_e4m3(pair >> 8u), from_e4m3(pair & 255u));
}
inline void cvt_rn_satfinite_e4m3x2_f32(u16& to, float high, float low) {
  to = (u16)(to_e4m3(high) << 8 | to_e4m3(low));
}
inline void mul_rn_f16x2(u32& to, u32 a, u32 b) {
  cvt_rn_f16x2_f32(to, from_f16(a >> 16) * from_f16(b >> 16), from_f16(a & 0xffffu) * from_f16(b & 0xffffu));
}
inline void fma_rn_bf16x2(u32& to, u32 a, u32 b, u32 c) {
  cvt_rn_bf16x2_f32(to, fmaf(from_bf16(a >> 16), from_bf16(b >> 16), from_bf16(c >> 16)),
                    fmaf(from_bf16(a & 0xffffu), from_bf16(b & 0xffffu), from_bf16(c & 0xffffu)));
}
// Bit 4 x + 2 y + z of the table is the result for bits x, y, z.
inline void lop3_b32(u32& to, u32 a, u32 b, u32 c, u32 table) {
  to = 0;
  for (u32 i = 0; i < 8; i++)
    if ((table >> i & 1u) != 0) to |= (i & 4u ? a : ~a) & (i & 2u ? b : ~b) & (i & 1u ? c : ~c);
}
inline void ex2_approx_ftz_f32(float& to, float x) { to = exp2f(x); }

// ---- matrices ----

typedef float Four __attribute__((vector_size(16)));
struct Tiles {
  union {
    float a[16][16];
    Four aFours[16][4];
  };
  union {
    float b[8][16];
    Four bFours[8][4];
  };
};
static Tiles tiles[2][emulated::maxWarps];

// Registers hold the numbers of columns k and k + 1.
template <class Convert>
void multiply(const char* instruction, Convert convert, float* c, const u32 (&a)[4], const u32 (&b)[2]) {
  const int warp = emulated::warp_number(), g = emulated::lane() >> 2, k = 2 * (emulated::lane() & 3);
  Tiles& shared = tiles[emulated::warps[warp].phase][warp];
  for (int i = 0; i < 4; i++) {
    float* to = &shared.a[g + 8 * (i & 1)][k + 8 * (i >> 1)];
    to[0] = convert(a[i] & 0xffffu);
    to[1] = convert(a[i] >> 16);
  }
  for (int i = 0; i < 2; i++) {
    float* to = &shared.b[g][k + 8 * i];
    to[0] = convert(b[i] & 0xffffu);
    to[1] = convert(b[i] >> 16);
  }
  emulated::meet_warp(instruction);
  for (int i = 0; i < 4; i++) {
    const Four *row = shared.aFours[g + 8 * (i >> 1)], *column = shared.bFours[k + (i & 1)];
    const Four sums = row[0] * column[0] + row[1] * column[1] + row[2] * column[2] + row[3] * column[3];
    c[i] += sums[0] + sums[1] + sums[2] + sums[3];
  }
}
// Four bytes a register, 32 deep.
inline void mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32(int& c0, int& c1, int& c2, int& c3, u32 a0, u32 a1, u32 a2,
                                                            u32 a3, u32 b0, u32 b1, int, int, int, int) {
  static int8_t left[2][emulated::maxWarps][16][32], right[2][emulated::maxWarps][8][32];
  const int warp = emulated::warp_number(), phase = emulated::warps[warp].phase;
  const int g = emulated::lane() >> 2, t = emulated::lane() & 3;
  const u32 a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
  for (int i = 0; i < 4; i++) memcpy(&left[phase][warp][g + 8 * (i & 1)][4 * t + 16 * (i >> 1)], &a[i], 4);
  for (int i = 0; i < 2; i++) memcpy(&right[phase][warp][g][4 * t + 16 * i], &b[i], 4);
  emulated::meet_warp("mma s8");
  int* c[4] = {&c0, &c1, &c2, &c3};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 32; k++)
      *c[i] += left[phase][warp][g + 8 * (i >> 1)][k] * right[phase][warp][2 * t + (i & 1)][k];
}
// The sums that come in are those that go out.
inline void mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(float& c0, float& c1, float& c2, float& c3, u32 a0,
                                                                u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, float, float,
                                                                float, float) {
  float c[4] = {c0, c1, c2, c3};
  multiply("mma bf16", from_bf16, c, {a0, a1, a2, a3}, {b0, b1});
  c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
}
inline void mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(float& c0, float& c1, float& c2, float& c3, u32 a0,
                                                              u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, float, float,
                                                              float, float) {
  float c[4] = {c0, c1, c2, c3};
  multiply("mma f16", from_f16, c, {a0, a1, a2, a3}, {b0, b1});
  c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
}

inline uint8_t* shared_at(u32 address, size_t numBytes) {
  const u32 step = numBytes < 16 ? (u32)numBytes : 16;
  if (address % step != 0) emulated::fail("a matrix or copy at %u of shared memory, which must be a multiple of %u", address, step);
  if (address + numBytes > emulated::dynamicSharedBytes) emulated::fail("byte %u of shared memory is not there", address);
  return emulated::dynamicShared + address;
}

// Lane l gives the address of row l % 8 of matrix l / 8. A second meeting: nobody may overwrite what others still read.
template <int N, bool isTransposed> void load_matrices(const char* instruction, u32 (&out)[N], u32 address) {
  const uint64_t* addresses = emulated::tell_warp(instruction, address);
  const int g = emulated::lane() >> 2, t = emulated::lane() & 3;
  for (int m = 0; m < N; m++) {
    u16 pair[2];
    for (int e = 0; e < 2; e++) {
      const int row = isTransposed ? 2 * t + e : g, column = isTransposed ? g : 2 * t + e;
      memcpy(&pair[e], shared_at((u32)addresses[8 * m + row], 16) + 2 * column, 2);
    }
    out[m] = pair[0] | (u32)pair[1] << 16;
  }
  emulated::meet_warp(instruction);
}
inline void ldmatrix_sync_aligned_m8n8_x4_shared_b16(u32& a, u32& b, u32& c, u32& d, u32 address) {
  u32 out[4];
  load_matrices<4, false>("ldmatrix", out, address);
  a = out[0], b = out[1], c = out[2], d = out[3];
}
inline void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(u32& a, u32& b, u32& c, u32& d, u32 address) {
  u32 out[4];
  load_matrices<4, true>("ldmatrix.trans", out, address);
  a = out[0], b = out[1], c = out[2], d = out[3];
}
inline void ldmatrix_sync_aligned_m8n8_x2_trans_shared_b16(u32& a, u32& b, u32 address) {
  u32 out[2];
  load_matrices<2, true>("ldmatrix.trans", out, address);
  a = out[0], b = out[1];
}

// ---- copies in the background ----

// They land when their thread waits for them and not before, so that a use that comes too early shows.
struct Copy {
  u32 to;
  int group;
  size_t size;
  uint8_t bytes[16];
};
constexpr int maxCopies = 512;
struct Copies {
  Copy waiting[maxCopies];
  int count, group;
  uint64_t block;
};
static Copies* copies;

inline Copies& own_copies() {
  if (copies == nullptr) copies = (Copies*)calloc((size_t)emulated::maxThreads, sizeof(Copies));
  Copies& own = copies[emulated::current->number];
  // What a thread of an earlier block left under way is not this one's.
  if (own.block != emulated::blocksRun) own.count = own.group = 0;
  own.block = emulated::blocksRun;
  return own;
}
inline void copy_later(u32 to, const void* from, size_t size, size_t numBytes) {
  Copies& own = own_copies();
  shared_at(to, size);
  if ((uintptr_t)from % size != 0) emulated::fail("copies %zu bytes from %p", size, from);
  if (own.count == maxCopies) emulated::fail("%d copies are under way", maxCopies);
  Copy& copy = own.waiting[own.count++];
  copy.to = to;
  copy.group = own.group;
  copy.size = size;
  memset(copy.bytes, 0, 16);
  memcpy(copy.bytes, from, numBytes);
}
inline void cp_async_cg_shared_global(u32 to, const void* from, int, int numBytes) {
  copy_later(to, from, 16, (size_t)numBytes);
}
inline void cp_async_ca_shared_global(u32 to, const void* from, int size) {
  copy_later(to, from, (size_t)size, (size_t)size);
}
inline void cp_async_ca_shared_global(u32 to, const void* from, int size, int numBytes) {
  copy_later(to, from, (size_t)size, (size_t)numBytes);
}
inline void cp_async_commit_group() { own_copies().group++; }
inline void cp_async_wait_group(int numUnderWay) {
  Copies& own = own_copies();
  int kept = 0;
  for (int i = 0; i < own.count; i++) {
    const Copy& copy = own.waiting[i];
    if (copy.group < own.group - numUnderWay)
      memcpy(shared_at(copy.to, copy.size), copy.bytes, copy.size);
    else
      own.waiting[kept++] = copy;
  }
  own.count = kept;
}

} // namespace ptx
