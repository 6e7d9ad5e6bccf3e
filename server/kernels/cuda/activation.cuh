// Activations of the MLP in f32. ACTIVATION: 0 SiLU, 1 GELU by tanh, 2 GELU by erf, 3 ReLU, 4 its square, 5 clamped SwiGLU
// (gated_activation alone). Source: GELU
// (Hendrycks and Gimpel 2016), SiLU as in SwiGLU (Shazeer 2020), squared ReLU of Primer (So et al. 2021).
#pragma once
#include "elem.cuh"

// Kernels in which it is an option compile without it.
#ifndef ACTIVATION
#define ACTIVATION 0
#endif
#ifndef SWIGLU_LIMIT
#define SWIGLU_LIMIT 7.f
#define SWIGLU_ALPHA 1.702f
#endif

// Without the slow path of a division: its call would make WGMMAs beside it wait for each other.
__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.f + __expf(-x)); }

__device__ __forceinline__ float gelu_tanh(float x) {
  return 0.5f * x * (1.f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

__device__ __forceinline__ float gelu_erf(float x) { return 0.5f * x * (1.f + erff(x * 0.7071067811865476f)); }

template <int activation>
__device__ __forceinline__ float activate(float x) {
  if constexpr (activation == 0) return silu(x);
  if constexpr (activation == 1) return gelu_tanh(x);
  if constexpr (activation == 3) return fmaxf(x, 0.f);
  if constexpr (activation == 4) return fmaxf(x, 0.f) * fmaxf(x, 0.f);
  return gelu_erf(x);
}

// act(gate) * up. The clamped SwiGLU of gpt-oss: gate sigmoid(alpha gate) (up + 1), the gate at most SWIGLU_LIMIT and the
// other within it (gpt-oss model card, OpenAI 2025).
template <int activation>
__device__ __forceinline__ float gated_activation(float gate, float up) {
  if constexpr (activation != 5) return activate<activation>(gate) * up;
  const float held = fminf(gate, SWIGLU_LIMIT), within = fminf(fmaxf(up, -SWIGLU_LIMIT), SWIGLU_LIMIT);
  return __fdividef(held, 1.f + __expf(-SWIGLU_ALPHA * held)) * (within + 1.f);
}
