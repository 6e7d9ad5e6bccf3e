// The products of a layer for few rows: what they are, how their weights lie, and what a warp takes of them at a time.
// ROWS: rows of x at most, 1, 2, 4 or 8; WEIGHT_E4M3 (codes with a scale a row), WEIGHT_INT4 (packed, a scale for 128
// inputs, no zeros; at most 4 rows) or bf16.
#pragma once
#if defined(WEIGHT_E4M3)
#define X_F16
#endif
#include "thin-x.cuh"

#define WARPS 16
#define THREADS (WARPS * WARP)
// Behind attention, gate and up, down, before the next attention.
#define BEHIND 0
#define GATE_UP 1
#define DOWN 2
#define BEFORE 3

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

struct Product {
  const u8* weight; // [outputs, inputs]
  const scale_t* scales;
  int inputs, outputs;
  int numChunks, numUnits; // a unit: 16 outputs, or 16 of the gate and 16 of up
};

struct Layer {
  const u8 *behind, *gateUp, *down, *before;
  const scale_t *behindScales, *gateUpScales, *downScales, *beforeScales;
  int attendedWidth, width, inner, outWidth;

  __device__ __forceinline__ Product product(int phase) const {
    Product p;
    p.weight = phase == BEHIND ? behind : phase == GATE_UP ? gateUp : phase == DOWN ? down : before;
    p.scales = phase == BEHIND ? behindScales : phase == GATE_UP ? gateUpScales : phase == DOWN ? downScales : beforeScales;
    p.inputs = phase == BEHIND ? attendedWidth : phase == DOWN ? inner : width;
    p.outputs = phase == BEHIND || phase == DOWN ? width : phase == GATE_UP ? 2 * inner : outWidth;
    p.numChunks = p.inputs / CHUNK;
    p.numUnits = (phase == GATE_UP ? inner : p.outputs) / 16;
    return p;
  }
};
