// Elementwise kernels over a flat array of `count` elements, one vector a thread: add, scale, soft cap, GELU, and rows
// times the sigmoid of their gate. `count` is a multiple of ELEM_VEC.
// Roofline: bytes. A launch moves two or three elements for each result, with a few FLOP.
// Source: GELU (Hendrycks and Gimpel 2016), logit soft-capping (Gemma Team 2024), gated shared expert of Qwen2-MoE
// (Yang et al. 2024).
#include "activation.cuh"

#define FLAT_INDEX ((u64)(blockIdx.x) * blockDim.x + threadIdx.x) * ELEM_VEC

extern "C" __global__ void add(const elem_t* a, const elem_t* b, elem_t* out, i64 count) {
  const u64 at = FLAT_INDEX;
  PDL_TRIGGER();
  PDL_WAIT();
  if (at >= count) return;
  float x[ELEM_VEC], y[ELEM_VEC];
  load_vec(a + at, x);
  load_vec(b + at, y);
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) x[i] += y[i];
  store_vec(out + at, x);
}

extern "C" __global__ void scale(const elem_t* in, elem_t* out, i64 count, float factor) {
  const u64 at = FLAT_INDEX;
  PDL_TRIGGER();
  PDL_WAIT();
  if (at >= count) return;
  float x[ELEM_VEC];
  load_vec(in + at, x);
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) x[i] *= factor;
  store_vec(out + at, x);
}

extern "C" __global__ void soft_cap(const elem_t* in, elem_t* out, i64 count, float cap) {
  const u64 at = FLAT_INDEX;
  PDL_TRIGGER();
  PDL_WAIT();
  if (at >= count) return;
  if (at + ELEM_VEC > count) {
    for (u64 i = at; i < count; i++) out[i] = float_to_elem(cap * tanhf(elem_to_float(in[i]) / cap));
    return;
  }
  float x[ELEM_VEC];
  load_vec(in + at, x);
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) x[i] = cap * tanhf(x[i] / cap);
  store_vec(out + at, x);
}

extern "C" __global__ void activation(const elem_t* in, elem_t* out, i64 count) {
  const u64 at = FLAT_INDEX;
  PDL_TRIGGER();
  PDL_WAIT();
  if (at >= count) return;
  float x[ELEM_VEC];
  load_vec(in + at, x);
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) x[i] = activate<ACTIVATION>(x[i]);
  store_vec(out + at, x);
}

extern "C" __global__ void add_bias(elem_t* x /* [numRows, width] */, const elem_t* bias /* [width] */, i64 count,
                                    int width) {
  const u64 at = FLAT_INDEX;
  PDL_TRIGGER();
  PDL_WAIT();
  if (at >= count) return;
  float values[ELEM_VEC], shifts[ELEM_VEC];
  load_vec(x + at, values);
  load_vec(bias + at % width, shifts);
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) values[i] += shifts[i];
  store_vec(x + at, values);
}

extern "C" __global__ void scale_columns(const elem_t* in /* [numRows, width] */, const float* factors /* [width] */,
                                         elem_t* out, i64 count, int width) {
  const u64 at = FLAT_INDEX;
  PDL_TRIGGER();
  PDL_WAIT();
  if (at >= count) return;
  float x[ELEM_VEC];
  load_vec(in + at, x);
  const float* mine = factors + at % width;
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) x[i] *= mine[i];
  store_vec(out + at, x);
}

extern "C" __global__ void gate_rows(const elem_t* in /* [numRows, width] */, const elem_t* gate /* [numRows] */,
                                     elem_t* out, i64 count, int width) {
  const u64 at = FLAT_INDEX;
  PDL_TRIGGER();
  PDL_WAIT();
  if (at >= count) return;
  float x[ELEM_VEC];
  load_vec(in + at, x);
  const float factor = 1.f / (1.f + __expf(-elem_to_float(gate[at / width])));
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) x[i] *= factor;
  store_vec(out + at, x);
}
