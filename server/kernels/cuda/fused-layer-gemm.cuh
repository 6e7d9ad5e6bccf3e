// The four GEMMs of the fused layer kernel: their shapes, the layout of their weights, and the chunk that a warp takes
// at a time. Source: fused-layer.cu.
// Options: ROWS: rows of x at most, 1, 2, 4 or 8; WEIGHT_E4M3 (codes with a scale per output), WEIGHT_INT4 (packed, a
// scale for 128 inputs, no zeros; at most 4 rows) or bf16.
#pragma once
#if defined(WEIGHT_E4M3)
#define X_F16
#endif
#include "skinny-input.cuh"

#define WARPS 16
#define THREADS (WARPS * WARP)
// Phases: o_proj, gate_up, down, the next qkv_proj.
#define O_PROJ 0
#define GATE_UP 1
#define DOWN 2
#define QKV_PROJ 3

#if defined(WEIGHT_INT4)
#undef CHUNK
#define CHUNK 256
#define BLOCK 64
#define SCALES_AT 2048
#define STAGE_BYTES (SCALES_AT + 64)
typedef uint4 scale_t;
#else
#define STAGE_BYTES TILE_STAGE_BYTES
typedef float scale_t;
#endif
// Inputs that share a scale of weights or of x.
#define GROUP 128

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
