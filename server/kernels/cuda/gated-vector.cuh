// One vector of act(gate) * up in f32, for rows [gate | up] of 2 * width columns. ACTIVATION: 0 SiLU (SwiGLU), 1 GELU by
// tanh, 2 GELU by erf (GeGLU), 5 clamped SwiGLU. SUM_SCALES: the rows are unscaled sums of a GEMM of codes.
// Source: SwiGLU and GeGLU (Shazeer 2020).
#pragma once
#include "activation.cuh"

__device__ __forceinline__ void scale_vector(float (&values)[ELEM_VEC], const float* columnScales, float rowScale) {
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i += 4) {
    const float4 scales = *reinterpret_cast<const float4*>(columnScales + i);
    values[i] *= scales.x * rowScale, values[i + 1] *= scales.y * rowScale;
    values[i + 2] *= scales.z * rowScale, values[i + 3] *= scales.w * rowScale;
  }
}

__device__ __forceinline__ void gated_vector(const elem_t* gate, int width, const float* rowScale,
                                             const float* columnScales, float (&out)[ELEM_VEC]) {
  float up[ELEM_VEC];
  load_vec(gate, out);
  load_vec(gate + width, up);
  if constexpr (IS_SET(SUM_SCALES)) {
    scale_vector(out, columnScales, *rowScale);
    scale_vector(up, columnScales + width, *rowScale);
  }
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) out[i] = gated_activation<ACTIVATION>(out[i], up[i]);
}
