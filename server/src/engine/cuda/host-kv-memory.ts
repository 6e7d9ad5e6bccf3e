/**
 * The memory of both tiers of a cache on a GPU, and the streams that copy between them. The second tier is locked memory of
 * the host; its blocks have all layers side by side, so that each crosses in one copy. It decides nothing.
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

/** The host's memory is locked in pieces of about this size. */
const LOCKED_BYTES: number = 2 ** 30;

/** What there is only with a second tier. */
interface SecondTier {
  readonly stages: CudaBuffer;
  readonly marks: readonly CudaEvent[];
  readonly stream: CudaStream;
  readonly locked: readonly PinnedBuffer[];
  readonly blocksPerPiece: number;
}

export class HostKvMemory implements HostKvCopies {
  readonly numHostBlocks: number;
  readonly #device: CudaDevice;
  readonly #shape: HostKvShape;
  readonly #second: SecondTier | undefined;

  /** @throws CudaError when the system does not lock so much */
  constructor(device: CudaDevice, shape: HostKvShape) {
    this.numHostBlocks = shape.numHostBlocks;
    this.#device = device;
    this.#shape = shape;
    this.#second = shape.numHostBlocks === 0 ? undefined : makeSecond(device, shape);
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
    this.#there.stream.copyToHost(this.#hostAt(hostBlock), this.#stageAt(stage), this.#blockBytes);
  }

  fetch(hostBlock: number, stage: number): void {
    this.#there.stream.copyToDevice(this.#stageAt(stage), this.#hostAt(hostBlock), this.#blockBytes);
  }

  mark(stage: number, stream: HostKvStream): void {
    this.#markOf(stage).record(this.#streamOf(stream));
  }

  await(stage: number, stream: HostKvStream): void {
    this.#markOf(stage).holdBack(this.#streamOf(stream));
  }

  /** Waits for the copies under way. */
  close(): void {
    if (this.#second !== undefined) closeSecond(this.#second);
  }

  get #there(): SecondTier {
    if (this.#second === undefined) throw new Error("a cache without a second tier");
    return this.#second;
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
    return this.#there.stages.address + BigInt(stage * this.#blockBytes);
  }

  #hostAt(hostBlock: number): DevicePointer {
    const { locked, blocksPerPiece } = this.#there;
    const piece = locked[Math.floor(hostBlock / blocksPerPiece)];
    if (piece === undefined) throw new Error(`the second tier has no block ${hostBlock}`);
    return piece.address + BigInt((hostBlock % blocksPerPiece) * this.#blockBytes);
  }

  #markOf(stage: number): CudaEvent {
    const mark = this.#there.marks[stage];
    if (mark === undefined) throw new Error(`there is no stage ${stage}`);
    return mark;
  }

  #streamOf(stream: HostKvStream): CudaStream {
    return stream === "steps" ? this.#device.stream : this.#there.stream;
  }

  #copy(places: { from: DevicePointer; fromStride: number; to: DevicePointer; toStride: number }): void {
    const { numPieces, pieceBytes } = this.#shape;
    launchCopyBlock(this.#device.stream, { ...places, numPieces, pieceBytes });
  }
}

function makeSecond(device: CudaDevice, { numHostBlocks, numPieces, pieceBytes }: HostKvShape): SecondTier {
  const blockBytes = numPieces * pieceBytes;
  const blocksPerPiece = Math.max(1, Math.floor(LOCKED_BYTES / blockBytes));
  const locked: PinnedBuffer[] = [];
  try {
    for (let first = 0; first < numHostBlocks; first += blocksPerPiece) {
      locked.push(device.pin(Math.min(blocksPerPiece, numHostBlocks - first) * blockBytes));
    }
    const stages = device.allocate("blocks on their way to the host's memory and back", BLOCK_STAGES * blockBytes);
    const marks = Array.from({ length: BLOCK_STAGES }, () => device.event());
    return { stages, marks, stream: device.newStream(), locked, blocksPerPiece };
  } catch (error) {
    for (const piece of locked) piece.close();
    throw error;
  }
}

function closeSecond({ stages, marks, stream, locked }: SecondTier): void {
  stream.synchronize();
  stream.close();
  for (const mark of marks) mark.close();
  stages.close();
  for (const piece of locked) piece.close();
}
