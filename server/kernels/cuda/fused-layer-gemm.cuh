// The four GEMMs of the fused layer kernel: their shapes, the forms of their weights and of x, and the chunk that a warp
// takes at a time.
// Options: ROWS: rows of x at most, 1, 2, 4 or 8; WEIGHT_E4M3 (codes with a scale per output), WEIGHT_INT4 (packed, a
// scale for 128 inputs, no zeros; at most 4 rows) or bf16.
// Source: fused-layer.cu; FP8 E4M3 (Micikevicius et al. 2022); PTX ISA, mma.sync and cvt.
#pragma once
#include "skinny-tile.cuh"

#define WARPS 16
#define THREADS (WARPS * WARP)
// Phases: o_proj, gate_up, down, the next qkv_proj.
#define O_PROJ 0
#define GATE_UP 1
#define DOWN 2
#define QKV_PROJ 3
// Inputs that share a scale of weights or of x.
#define GROUP 128

constexpr bool hasInt4Weights = IS_SET(WEIGHT_INT4), hasE4m3Weights = IS_SET(WEIGHT_E4M3);

// x as bf16.
struct Bf16Input {
  __device__ __forceinline__ static u16 stored(float value) { return float_to_bf16(value); }
  __device__ __forceinline__ static void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_bf16(c, a, b0, b1); }
};

// x as f16, clamped to its range.
struct F16Input {
  __device__ __forceinline__ static float clamped(float value) { return fminf(fmaxf(value, -65504.f), 65504.f); }
  __device__ __forceinline__ static u16 stored(float value) { return (u16)pack_f16(clamped(value), 0.f); }
  __device__ __forceinline__ static void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_f16(c, a, b0, b1); }
};

struct Bf16Form : Bf16Weights, Bf16Input {
  static constexpr int stageBytes = TILE_STAGE_BYTES;
  static constexpr int rowGap = 32;
  typedef float Scale;
  typedef u16 Kept;
};

struct E4m3Form : E4m3AsF16, F16Input {
  static constexpr int stageBytes = TILE_STAGE_BYTES;
  static constexpr int rowGap = 32;
  typedef float Scale;
  typedef u16 Kept;
};

// Packed codes of 16 outputs and their scales; two rows of bytes for each row of x.
struct Int4Form : Bf16Input {
  static constexpr int chunk = 256, block = 64, scalesAt = 2048, stageBytes = scalesAt + 64;
  static constexpr int blockBytes = 4 * WARP * 16; // of 64 outputs by 64 inputs
  static constexpr int rowGap = 64;
  typedef uint4 Scale;
  typedef u8 Kept;
};

typedef Choose<hasInt4Weights, Int4Form, Choose<hasE4m3Weights, E4m3Form, Bf16Form>> Form;
typedef Form::Scale scale_t;

#define CHUNK Form::chunk
#define STAGE_BYTES Form::stageBytes

struct Gemm {
  const u8* weight; // [outputs, inputs]
  const scale_t* scales;
  int inputs, outputs;
  int numChunks, numUnits; // a unit: 16 outputs, or 16 of the gate and 16 of up
};

struct Layer {
  const u8 *oProj, *gateUp, *down, *qkvProj;
  const scale_t *oProjScales, *gateUpScales, *downScales, *qkvProjScales;
  int attentionWidth, width, inner, outWidth;

  __device__ __forceinline__ Gemm gemm(int phase) const {
    Gemm p;
    p.weight = phase == O_PROJ ? oProj : phase == GATE_UP ? gateUp : phase == DOWN ? down : qkvProj;
    p.scales = phase == O_PROJ ? oProjScales : phase == GATE_UP ? gateUpScales : phase == DOWN ? downScales : qkvProjScales;
    p.inputs = phase == O_PROJ ? attentionWidth : phase == DOWN ? inner : width;
    p.outputs = phase == O_PROJ || phase == DOWN ? width : phase == GATE_UP ? 2 * inner : outWidth;
    p.numChunks = p.inputs / CHUNK;
    p.numUnits = (phase == GATE_UP ? inner : p.outputs) / 16;
    return p;
  }
};
