/** ONNX Runtime for the tools: models opened to be looked at, run, or written anew by its optimiser. */
import { availableParallelism } from "node:os";
import { checkExternalData } from "../../formats/onnx-external-data.ts";
import { OnnxRuntime, type SessionOptions } from "../../native/onnxruntime.ts";
import type { OnnxSession } from "../../native/onnxruntime-session.ts";
import { ToolError } from "../tool-error.ts";

/** 1: what every runtime could take; 2: with operators of ONNX Runtime; 0: as it is. */
export type OptimizationLevel = 0 | 1 | 2 | 99;

/** One for all models that a command opens. */
export class ModelOpener implements Disposable {
  readonly #runtime: OnnxRuntime = new OnnxRuntime({ isVerbose: false });

  get version(): string {
    return this.#runtime.version;
  }

  /** `optimizedModelPath`: the model is also written there. @throws ToolError when ONNX Runtime refuses it */
  async open(path: string, graphLevel: OptimizationLevel, optimizedModelPath?: string): Promise<OnnxSession> {
    const options: SessionOptions = {
      graphLevel,
      isParallel: false,
      intraOpThreads: availableParallelism(),
      interOpThreads: 1,
      config: new Map(),
      runConfig: new Map(),
      customOpLibraries: [],
      optimizedModelPath,
    };
    try {
      await checkExternalData(path);
      return await this.#runtime.createSession(path, options);
    } catch (cause) {
      throw new ToolError(`${path}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    }
  }

  [Symbol.dispose](): void {
    this.#runtime.close();
  }
}
