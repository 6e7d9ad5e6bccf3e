// Weight copies of the fused layer kernel: each warp copies STAGES tiles ahead by cp.async, across units and across
// GEMMs, so that memory stays busy while blocks wait for each other. Address updates are few, because instructions for
// each tile must not exceed the time of its bytes.
// Source: PTX ISA, cp.async and cp.async.wait_group.
#pragma once
#include "fused-layer-gemm.cuh"

struct WeightsAhead {
  const Layer& layer;
  u8* stages; // of this warp
  int end;    // of the phases
  int warp, lane;
  // The next copy, and the stage that is read next.
  int phase, unit, part = 0, stage = 0;
  // The GEMM's units, this warp's chunks of each, and the number of chunks still to be copied.
  int numUnits = 0, numMine = 0, numLeft = 0;
  // Source address of this thread, now and for the first unit; distance from gate to up.
  const u8 *from = nullptr, *base = nullptr;
  u32 unitBytes = 0; // of a unit's rows; of 4 bits those of four units, which lie mixed
  u64 partStep = 0;
  u32 copyTo;
#if defined(WEIGHT_INT4)
  u32 scalesTo, scalesStep = 0;
  const u32 *scalesFrom = nullptr, *scalesBase = nullptr;
#else
  u32 fourRows = 0;
#endif

  __device__ __forceinline__ WeightsAhead(const Layer& of, u8* to, int first, int endOf)
      : layer(of), stages(to), end(endOf), warp(threadIdx.x >> 5), lane(threadIdx.x & 31), phase(first), unit(blockIdx.x) {
#if defined(WEIGHT_INT4)
    copyTo = shared_address(stages) + lane * 16;
    scalesTo = shared_address(stages) + SCALES_AT + lane * 4;
#else
    copyTo = shared_address(stages) + line_place(lane >> 3, lane & 7);
#endif
    start_gemm();
#pragma unroll 1
    for (int i = 0; i + 1 < STAGES; i++) copy(i);
  }

  // The next tile; the stage before it is free for the next copy.
  __device__ __forceinline__ const u8* next() {
    cp_async_wait<STAGES - 2>();
    __syncwarp();
    copy(stage == 0 ? STAGES - 1 : stage - 1);
    const u8* at = stages + stage * STAGE_BYTES;
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    return at;
  }

  // Moves to the first unit of this GEMM, or of a later one.
  __device__ __forceinline__ void start_gemm() {
    Gemm p;
#pragma unroll 1
    for (;; phase++) {
      if (phase >= end) return;
      p = layer.gemm(phase);
      numMine = (p.numChunks - warp + WARPS - 1) / WARPS;
      if ((int)blockIdx.x < p.numUnits && numMine > 0) break;
    }
    unit = blockIdx.x;
    numUnits = p.numUnits;
#if defined(WEIGHT_INT4)
    const int numBlocks = p.inputs / BLOCK, numGroups = p.outputs / 64;
    unitBytes = numBlocks * (4 * WARP * 16);
    base = p.weight + warp * (CHUNK / BLOCK) * (4 * WARP * 16) + lane * 16;
    partStep = (u64)(layer.inner / 64) * unitBytes;
    // Outputs g and g + 8 of the tile, for each group of inputs.
    const int set = warp * (CHUNK / GROUP) + (lane >> 3 & 1);
    scalesBase = reinterpret_cast<const u32*>(p.scales + (u64)set * numGroups * 8 + (lane & 7));
    scalesStep = WARPS * (CHUNK / GROUP) * numGroups * 32;
#else
    const u32 rowBytes = p.inputs * 32 / RUN;
    unitBytes = 16 * rowBytes;
    base = p.weight + (u64)(lane >> 3) * rowBytes + warp * LINE + (lane & 7) * 16;
    partStep = (u64)layer.inner * rowBytes;
    fourRows = 4 * rowBytes;
#endif
    start_unit();
  }

  __device__ __forceinline__ void start_unit() {
    numLeft = numMine;
#if defined(WEIGHT_INT4)
    from = base + (u64)((u32)unit >> 2) * unitBytes + (unit & 3) * (WARP * 16);
    scalesFrom = scalesBase + (u32)((unit >> 2) * 32 + (unit & 3));
#else
    from = base + (u64)(u32)unit * unitBytes;
#endif
  }

  __device__ __forceinline__ void copy(int to) {
    if (phase < end) {
      const u32 at = copyTo + to * STAGE_BYTES;
      const u8* begin = part == 0 ? from : from + partStep;
#if defined(WEIGHT_INT4)
#pragma unroll
      for (int n = 0; n < CHUNK / BLOCK; n++) cp_async(at + n * (WARP * 16), begin + n * (4 * WARP * 16), true);
      if (lane < 16) cp_async_4(scalesTo + to * STAGE_BYTES, part == 0 ? scalesFrom : scalesFrom + (layer.inner / 64) * 32);
#else
#pragma unroll
      for (int i = 0; i < 4; i++) cp_async(at + 4 * i * LINE, begin + i * fourRows, true);
#endif
      advance();
    }
    cp_async_commit();
  }

  __device__ __forceinline__ void advance() {
    if (phase == GATE_UP && part == 0) {
      part = 1;
      return;
    }
    part = 0;
    numLeft -= 1;
    if (numLeft > 0) {
#if defined(WEIGHT_INT4)
      from += WARPS * (CHUNK / BLOCK) * 4 * WARP * 16;
      scalesFrom += scalesStep;
#else
      from += WARPS * LINE;
#endif
      return;
    }
    unit += gridDim.x;
    if (unit < numUnits) {
      start_unit();
      return;
    }
    phase += 1;
    start_gemm();
  }
};
