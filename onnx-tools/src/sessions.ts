/** ONNX Runtime for the tools: opens models for inspection, runs and optimisation. */
import { availableParallelism } from "node:os";
import { basename } from "node:path";
import { ToolError } from "@nereid/server/files/tool-error";
import { checkExternalData } from "@nereid/server/formats/onnx/external-data";
import { OnnxRuntime, type SessionOptions } from "@nereid/server/native/onnxruntime/onnxruntime";
import type { OnnxSession } from "@nereid/server/native/onnxruntime/session";

/** 1: standard operators only; 2: with ONNX Runtime's own operators; 0: no optimisation. */
export type OptimizationLevel = 0 | 1 | 2 | 99;

export interface SaveOptions {
  readonly path: string;
  /** External data file for weights, since one file ends at 2 GiB. */
  readonly isLarge: boolean;
}

/** Path of the external data file of a model being written. */
export function dataBeside(path: string): string {
  return `${path}_data`;
}

function weightsBeside(path: string): [string, string][] {
  return [
    ["session.optimized_model_external_initializers_file_name", basename(dataBeside(path))],
    ["session.optimized_model_external_initializers_min_size_in_bytes", "1024"],
  ];
}

/** One runtime for all models that a command opens. */
export class ModelOpener implements Disposable {
  readonly #runtime: OnnxRuntime = new OnnxRuntime({ isVerbose: false });

  get version(): string {
    return this.#runtime.version;
  }

  /** `save`: path for the optimised model. @throws ToolError when ONNX Runtime refuses it */
  async open(path: string, graphLevel: OptimizationLevel, save?: SaveOptions): Promise<OnnxSession> {
    const options: SessionOptions = {
      graphLevel,
      isParallel: false,
      intraOpThreads: availableParallelism(),
      interOpThreads: 1,
      config: new Map(save?.isLarge === true ? weightsBeside(save.path) : []),
      runConfig: new Map(),
      customOpLibraries: [],
      optimizedModelPath: save?.path,
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
