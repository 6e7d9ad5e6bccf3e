/**
 * A loaded model that can run, also several times concurrently. Synchronous runs block the event loop; asynchronous
 * ones use another thread. The caller chooses.
 */
import type { Tensor } from "../../core/tensor.ts";
import { type Address, addressOf, cString } from "../ffi.ts";
import { type FrameContext, type OutputRequest, RunFrame } from "./frame.ts";
import type { ModelInfo } from "./info.ts";
import { type OnnxMetadata, readMetadata } from "./metadata.ts";
import type { StartRun } from "./start.ts";
import { check } from "./status.ts";

/** A run in progress on another thread. */
export interface PendingRun {
  /** @throws OnnxRuntimeError, with `isTermination` after `terminate()` */
  readonly outputs: Promise<Tensor[]>;
  /** Terminates the run between two nodes of the graph. */
  terminate(): void;
}

export class OnnxSession {
  readonly info: ModelInfo;
  readonly #context: FrameContext;
  readonly #session: Address;
  readonly #runConfig: ReadonlyMap<string, string>;
  readonly #start: StartRun;
  /** C strings of all names; `#nameAddresses` points into them. */
  readonly #names: readonly Uint8Array[];
  readonly #nameAddresses: ReadonlyMap<string, Address>;
  /** Idle frames; as many exist as runs ever overlapped. */
  readonly #idleFrames: RunFrame[] = [];
  #runsUnderWay = 0;

  /** Takes ownership of the handle. */
  constructor(
    context: FrameContext,
    session: Address,
    info: ModelInfo,
    { runConfig, start }: { readonly runConfig: ReadonlyMap<string, string>; readonly start: StartRun },
  ) {
    this.#context = context;
    this.#session = session;
    this.info = info;
    this.#runConfig = runConfig;
    this.#start = start;
    const values = [...info.inputs, ...info.outputs, ...info.overridableInitializers];
    this.#names = values.map(({ name }) => cString(name));
    this.#nameAddresses = new Map(
      values.map(({ name }, index) => [name, addressOf(this.#names[index] ?? cString(name))]),
    );
  }

  metadata(): OnnxMetadata {
    return readMetadata(this.#context.api, this.#context.allocator, this.#session);
  }

  /** Runs on this thread. Inputs are read and `into` outputs written in place. @throws OnnxRuntimeError */
  run(inputs: readonly Tensor[], outputs: readonly OutputRequest[]): Tensor[] {
    const { api } = this.#context;
    const frame = this.#takeFrame();
    try {
      frame.prepare(inputs, outputs);
      const { inputNames, inputValues, inputCount, outputNames, outputCount, outputValues, runOptions } = frame;
      check(
        api,
        api.Run(this.#session, runOptions, inputNames, inputValues, inputCount, outputNames, outputCount, outputValues),
      );
      return frame.collect();
    } finally {
      this.#giveFrame(frame);
    }
  }

  /** Runs on another thread. Buffers of inputs and `into` outputs belong to the run until it has settled. */
  runAsync(inputs: readonly Tensor[], outputs: readonly OutputRequest[]): PendingRun {
    const frame = this.#takeFrame();
    let isRunning = true;
    const finish = async (): Promise<Tensor[]> => {
      try {
        frame.prepare(inputs, outputs);
        check(this.#context.api, await this.#start(this.#session, frame));
        return frame.collect();
      } finally {
        isRunning = false;
        this.#giveFrame(frame);
      }
    };
    return {
      outputs: finish(),
      terminate: () => {
        // The termination flag belongs to the frame: after the run it would stop another one.
        if (isRunning) frame.terminate();
      },
    };
  }

  /** Frees the model. No run may be in progress. */
  async close(): Promise<void> {
    if (this.#runsUnderWay > 0) throw new Error(`cannot close a session: ${this.#runsUnderWay} runs are under way`);
    for (const frame of this.#idleFrames) frame.close();
    this.#idleFrames.length = 0;
    await new Promise<void>((resolve, reject) => {
      // Freeing gigabytes takes a while.
      this.#context.api.ReleaseSession.async(this.#session, (error) => {
        if (error === null) resolve();
        else reject(error);
      });
    });
  }

  #takeFrame(): RunFrame {
    const frame = this.#idleFrames.pop() ?? new RunFrame(this.#context, this.#nameAddresses, this.#runConfig);
    this.#runsUnderWay++;
    return frame;
  }

  #giveFrame(frame: RunFrame): void {
    this.#runsUnderWay--;
    frame.clear();
    this.#idleFrames.push(frame);
  }
}
