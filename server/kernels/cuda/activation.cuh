// Activations of the MLP in f32. ACTIVATION: 0 SiLU, 1 GELU by tanh, 2 GELU by erf. Source: GELU (Hendrycks and Gimpel
// 2016), SiLU as in SwiGLU (Shazeer 2020).
#pragma once
#include "elem.cuh"

__device__ __forceinline__ float activate(float x) {
#if ACTIVATION == 0
  return x / (1.f + __expf(-x));
#elif ACTIVATION == 1
  return 0.5f * x * (1.f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
#else
  return 0.5f * x * (1.f + erff(x * 0.7071067811865476f));
#endif
}
