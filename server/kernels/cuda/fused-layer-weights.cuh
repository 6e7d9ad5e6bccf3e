// Weight copies of the fused layer kernel: each warp copies STAGES tiles ahead by cp.async, across units and across
// GEMMs, so that memory stays busy while blocks wait for each other. Address updates are few, because instructions for
// each tile must not exceed the time of its bytes.
// Source: PTX ISA, cp.async and cp.async.wait_group.
#pragma once
#include "fused-layer-gemm.cuh"

// Place of a tile's weights: lines of 128 bytes, one of each output.
template <typename Format>
struct LineCursor {
  u32 copyTo;
  // Source address of this thread, now and for the first unit.
  const u8 *from = nullptr, *base = nullptr;
  u32 unitBytes = 0;
  u64 partStep = 0; // distance from gate to up
  u32 fourRows = 0;

  __device__ __forceinline__ LineCursor(const u8* stages, int lane)
      : copyTo(shared_address(stages) + line_place(lane >> 3, lane & 7)) {}

  __device__ __forceinline__ void start_gemm(const Gemm& p, int inner, int warp, int lane) {
    const u32 rowBytes = p.inputs * 32 / Format::run;
    unitBytes = 16 * rowBytes;
    base = p.weight + (u64)(lane >> 3) * rowBytes + warp * LINE + (lane & 7) * 16;
    partStep = (u64)inner * rowBytes;
    fourRows = 4 * rowBytes;
  }

  __device__ __forceinline__ void start_unit(int unit) { from = base + (u64)(u32)unit * unitBytes; }

  __device__ __forceinline__ void copy(int stage, int part, int, int) const {
    const u32 at = copyTo + stage * STAGE_BYTES;
    const u8* begin = part == 0 ? from : from + partStep;
#pragma unroll
    for (int i = 0; i < 4; i++) cp_async(at + 4 * i * LINE, begin + i * fourRows, true);
  }

  __device__ __forceinline__ void next_chunk() { from += WARPS * LINE; }
};

// Place of a tile's weights: packed codes, of which four units lie mixed, and their scales.
struct Int4Cursor {
  u32 copyTo;
  const u8 *from = nullptr, *base = nullptr;
  u32 unitBytes = 0; // of four units
  u64 partStep = 0;
  u32 scalesTo, scalesStep = 0;
  const u32 *scalesFrom = nullptr, *scalesBase = nullptr;

  __device__ __forceinline__ Int4Cursor(const u8* stages, int lane)
      : copyTo(shared_address(stages) + lane * 16),
        scalesTo(shared_address(stages) + Int4Form::scalesAt + lane * 4) {}

  __device__ __forceinline__ void start_gemm(const Gemm& p, int inner, int warp, int lane) {
    const int numBlocks = p.inputs / Int4Form::block, numGroups = p.outputs / 64;
    unitBytes = numBlocks * Int4Form::blockBytes;
    base = p.weight + warp * (CHUNK / Int4Form::block) * Int4Form::blockBytes + lane * 16;
    partStep = (u64)(inner / 64) * unitBytes;
    // Outputs g and g + 8 of the tile, for each group of inputs.
    const int set = warp * (CHUNK / GROUP) + (lane >> 3 & 1);
    scalesBase = reinterpret_cast<const u32*>(p.scales + (u64)set * numGroups * 8 + (lane & 7));
    scalesStep = WARPS * (CHUNK / GROUP) * numGroups * 32;
  }

  __device__ __forceinline__ void start_unit(int unit) {
    from = base + (u64)((u32)unit >> 2) * unitBytes + (unit & 3) * (WARP * 16);
    scalesFrom = scalesBase + (u32)((unit >> 2) * 32 + (unit & 3));
  }

  __device__ __forceinline__ void copy(int stage, int part, int inner, int lane) const {
    const u32 at = copyTo + stage * STAGE_BYTES;
    const u8* begin = part == 0 ? from : from + partStep;
#pragma unroll
    for (int n = 0; n < CHUNK / Int4Form::block; n++) cp_async(at + n * (WARP * 16), begin + n * Int4Form::blockBytes, true);
    if (lane < 16) cp_async_4(scalesTo + stage * STAGE_BYTES, part == 0 ? scalesFrom : scalesFrom + (inner / 64) * 32);
  }

  __device__ __forceinline__ void next_chunk() {
    from += WARPS * (CHUNK / Int4Form::block) * Int4Form::blockBytes;
    scalesFrom += scalesStep;
  }
};

template <typename Cursor>
struct WeightsAhead {
  const Layer& layer;
  u8* stages; // of this warp
  int end;    // of the phases
  int warp, lane;
  // The next copy, and the stage that is read next.
  int phase, unit, part = 0, stage = 0;
  // The GEMM's units, this warp's chunks of each, and the number of chunks still to be copied.
  int numUnits = 0, numMine = 0, numLeft = 0;
  Cursor cursor;

  __device__ __forceinline__ WeightsAhead(const Layer& of, u8* to, int first, int endOf)
      : layer(of), stages(to), end(endOf), warp(threadIdx.x >> 5), lane(threadIdx.x & 31), phase(first),
        unit(blockIdx.x), cursor(to, threadIdx.x & 31) {
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
    cursor.start_gemm(p, layer.inner, warp, lane);
    start_unit();
  }

  __device__ __forceinline__ void start_unit() {
    numLeft = numMine;
    cursor.start_unit(unit);
  }

  __device__ __forceinline__ void copy(int to) {
    if (phase < end) {
      cursor.copy(to, part, layer.inner, lane);
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
      cursor.next_chunk();
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
