/**
 * The memory of the device and host KV cache, and the streams that copy between them. The host KV cache is pinned memory. Its
 * blocks have all layers side by side, so each is one copy. It decides nothing.
 */
import { launchCopyBlock } from "../../../kernels/copy-block/copy-block.cuda.ts";
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import type { CudaBuffer, PinnedBuffer } from "../../device/cuda/cuda-memory.ts";
import type { CudaEvent, CudaStream } from "../../device/cuda/cuda-stream.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import { BLOCK_STAGES, type HostKvCopies, type HostKvStream } from "./host-kv-cache.ts";

export interface HostKvShape {
  /** Keys, then values of each layer: a piece of each block after the other. */
  readonly cache: DevicePointer;
  readonly numBlocks: number;
  readonly numHostBlocks: number;
  readonly numPieces: number;
  readonly pieceBytes: number;
}

/** Host memory is pinned in pieces of about this size. */
const LOCKED_BYTES: number = 2 ** 30;

/** Present only with a host KV cache. */
interface HostMemory {
  readonly stages: CudaBuffer;
  readonly events: readonly CudaEvent[];
  readonly stream: CudaStream;
  readonly locked: readonly PinnedBuffer[];
  readonly blocksPerPiece: number;
}

export class HostKvMemory implements HostKvCopies {
  readonly numHostBlocks: number;
  readonly #device: CudaDevice;
  readonly #shape: HostKvShape;
  readonly #host: HostMemory | undefined;

  /** @throws CudaError when the system cannot pin that much memory */
  constructor(device: CudaDevice, shape: HostKvShape) {
    this.numHostBlocks = shape.numHostBlocks;
    this.#device = device;
    this.#shape = shape;
    this.#host = shape.numHostBlocks === 0 ? undefined : createHostMemory(device, shape);
  }

  move(from: number, to: number): void {
    const stride = this.#stride;
    this.#copy({ from: this.#blockAt(from), fromStride: stride, to: this.#blockAt(to), toStride: stride });
  }

  gather(block: number, stage: number): void {
    const { pieceBytes } = this.#shape;
    const to = this.#stageAt(stage);
    this.#copy({ from: this.#blockAt(block), fromStride: this.#stride, to, toStride: pieceBytes });
  }

  scatter(stage: number, block: number): void {
    const { pieceBytes } = this.#shape;
    const from = this.#stageAt(stage);
    this.#copy({ from, fromStride: pieceBytes, to: this.#blockAt(block), toStride: this.#stride });
  }

  store(stage: number, hostBlock: number): void {
    this.#expectHost.stream.copyToHost(this.#hostAt(hostBlock), this.#stageAt(stage), this.#blockBytes);
  }

  fetch(hostBlock: number, stage: number): void {
    this.#expectHost.stream.copyToDevice(this.#stageAt(stage), this.#hostAt(hostBlock), this.#blockBytes);
  }

  record(stage: number, stream: HostKvStream): void {
    this.#eventOf(stage).record(this.#streamOf(stream));
  }

  await(stage: number, stream: HostKvStream): void {
    this.#eventOf(stage).holdBack(this.#streamOf(stream));
  }

  /** Waits for copies in flight. */
  close(): void {
    if (this.#host !== undefined) closeHostMemory(this.#host);
  }

  get #expectHost(): HostMemory {
    if (this.#host === undefined) throw new Error("a cache without a host KV cache");
    return this.#host;
  }

  get #blockBytes(): number {
    return this.#shape.numPieces * this.#shape.pieceBytes;
  }

  get #stride(): number {
    return this.#shape.numBlocks * this.#shape.pieceBytes;
  }

  #blockAt(block: number): DevicePointer {
    return this.#shape.cache + BigInt(block * this.#shape.pieceBytes);
  }

  #stageAt(stage: number): DevicePointer {
    return this.#expectHost.stages.address + BigInt(stage * this.#blockBytes);
  }

  #hostAt(hostBlock: number): DevicePointer {
    const { locked, blocksPerPiece } = this.#expectHost;
    const piece = locked[Math.floor(hostBlock / blocksPerPiece)];
    if (piece === undefined) throw new Error(`the host KV cache has no block ${hostBlock}`);
    return piece.address + BigInt((hostBlock % blocksPerPiece) * this.#blockBytes);
  }

  #eventOf(stage: number): CudaEvent {
    const event = this.#expectHost.events[stage];
    if (event === undefined) throw new Error(`there is no stage ${stage}`);
    return event;
  }

  #streamOf(stream: HostKvStream): CudaStream {
    return stream === "steps" ? this.#device.stream : this.#expectHost.stream;
  }

  #copy(places: { from: DevicePointer; fromStride: number; to: DevicePointer; toStride: number }): void {
    const { numPieces, pieceBytes } = this.#shape;
    launchCopyBlock(this.#device.stream, { ...places, numPieces, pieceBytes });
  }
}

function createHostMemory(device: CudaDevice, { numHostBlocks, numPieces, pieceBytes }: HostKvShape): HostMemory {
  const blockBytes = numPieces * pieceBytes;
  const blocksPerPiece = Math.max(1, Math.floor(LOCKED_BYTES / blockBytes));
  const locked: PinnedBuffer[] = [];
  try {
    for (let first = 0; first < numHostBlocks; first += blocksPerPiece) {
      locked.push(device.pin(Math.min(blocksPerPiece, numHostBlocks - first) * blockBytes));
    }
    const stages = device.allocate("staging blocks of the host KV cache", BLOCK_STAGES * blockBytes);
    const events = Array.from({ length: BLOCK_STAGES }, () => device.event());
    return { stages, events, stream: device.newStream(), locked, blocksPerPiece };
  } catch (error) {
    for (const piece of locked) piece.close();
    throw error;
  }
}

function closeHostMemory({ stages, events, stream, locked }: HostMemory): void {
  stream.synchronize();
  stream.close();
  for (const event of events) event.close();
  stages.close();
  for (const piece of locked) piece.close();
}
