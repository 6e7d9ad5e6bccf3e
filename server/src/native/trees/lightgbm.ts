/**
 * LightGBM's C library: models in its text format. Source: LightGBM documentation, "C API" (c_api.h). Does not know the use
 * of a model.
 */

import { CheckedCalls } from "../checked-calls.ts";
import { type Address, cString, type NativeFunction, openLibrary, type Pointer } from "../ffi.ts";
import type { PythonLibrarySpec } from "../python-library.ts";
import {
  type Forest,
  ForestError,
  type ForestInfo,
  type ForestModel,
  type ForestOptions,
  type ForestOutput,
  type ForestRows,
  NO_REASON,
  outputLength,
} from "./forest.ts";
import { expectLightgbmText } from "./lightgbm-text.ts";

export const LIGHTGBM_LIBRARY: PythonLibrarySpec = {
  title: "LightGBM",
  pipName: "lightgbm",
  override: "NEREID_LIGHTGBM_LIB",
  setting: "fil,lightgbm-library",
  file: "lightgbm/lib/lib_lightgbm.so",
};

type Call<Args extends unknown[]> = NativeFunction<Args, number>;
type Prediction = [Address, Pointer, number, number, number, number, number, number, number, Pointer, Pointer, Pointer];

/** `C_API_DTYPE_FLOAT32`, and `C_API_PREDICT_NORMAL` and `C_API_PREDICT_CONTRIB`. */
const FLOAT32 = 0;
const PREDICT: Readonly<Record<ForestOutput, number>> = { values: 0, contributions: 3 };
const ROW_MAJOR = 1;
/** From the first iteration on, all. */
const FIRST = 0;
const ALL = -1;

export class LightgbmLibrary {
  readonly path: string;
  readonly #predict: Call<Prediction>;
  readonly #load: Call<[Pointer, Pointer, Pointer]>;
  readonly #free: Call<[Address]>;
  readonly #numFeatures: Call<[Address, Pointer]>;
  readonly #numClasses: Call<[Address, Pointer]>;
  readonly #calls: CheckedCalls;

  /** @throws Error with the reason of the dynamic linker */
  constructor(path: string) {
    const library = openLibrary(path);
    const lastError = library.func<[], string | null>("LGBM_GetLastError", "str", []);
    const ints = new Array<string>(7).fill("int");
    this.path = path;
    this.#calls = new CheckedCalls(() => new ForestError("LightGBM", lastError() ?? NO_REASON));
    this.#predict = library.func("LGBM_BoosterPredictForMat", "int", [
      "void*",
      "void*",
      ...ints,
      "void*",
      "void*",
      "void*",
    ]);
    this.#load = library.func("LGBM_BoosterLoadModelFromString", "int", ["void*", "void*", "void*"]);
    this.#free = library.func("LGBM_BoosterFree", "int", ["void*"]);
    this.#numFeatures = library.func("LGBM_BoosterGetNumFeature", "int", ["void*", "void*"]);
    this.#numClasses = library.func("LGBM_BoosterGetNumClasses", "int", ["void*", "void*"]);
  }

  /** `content`: of a model's text file. @throws ForestError when it is none */
  async load(content: Uint8Array, { numThreads }: ForestOptions): Promise<ForestModel> {
    expectLightgbmText(content);
    const [booster, iterations] = [new BigUint64Array(1), new Int32Array(1)];
    await this.#calls.callAsync(this.#load, Buffer.concat([content, Buffer.alloc(1)]), iterations, booster);
    const handle = booster[0] ?? 0n;
    const info = {
      numFeatures: this.#read(this.#numFeatures, handle),
      numOutputs: this.#read(this.#numClasses, handle),
    };
    const settings = cString(`num_threads=${numThreads} verbosity=-1`);
    const forest = (): Forest =>
      new LightgbmForest({ predict: this.#predict, calls: this.#calls, handle, info, settings });
    return {
      info,
      outputs: ["values", "contributions"],
      createForest: async () => forest(),
      close: () => void this.#free(handle),
    };
  }

  #read(read: Call<[Address, Pointer]>, handle: Address): number {
    const out = new Int32Array(1);
    this.#calls.check(read(handle, out));
    return out[0] ?? 0;
  }
}

interface BoosterContext {
  readonly predict: Call<Prediction>;
  readonly calls: CheckedCalls;
  /** Any number of threads may compute with it. */
  readonly handle: Address;
  readonly info: ForestInfo;
  readonly settings: Uint8Array;
}

class LightgbmForest implements Forest {
  readonly #context: BoosterContext;
  readonly #length = new BigInt64Array(1);

  constructor(context: BoosterContext) {
    this.#context = context;
  }

  predict(rows: ForestRows, output: ForestOutput): Float32Array {
    const { predict, calls } = this.#context;
    const result = this.#memory(rows, output);
    calls.check(predict(...this.#arguments(rows, output, result)));
    return this.#take(result);
  }

  async predictAsync(rows: ForestRows, output: ForestOutput): Promise<Float32Array> {
    const { predict, calls } = this.#context;
    const result = this.#memory(rows, output);
    await calls.callAsync(predict, ...this.#arguments(rows, output, result));
    return this.#take(result);
  }

  close(): void {
    // The booster belongs to the model.
  }

  #memory({ numRows }: ForestRows, output: ForestOutput): Float64Array {
    return new Float64Array(outputLength(this.#context.info, output, numRows));
  }

  #arguments({ values, numRows }: ForestRows, output: ForestOutput, result: Float64Array): Prediction {
    const { handle, info, settings } = this.#context;
    const shape = [numRows, info.numFeatures, ROW_MAJOR] as const;
    return [handle, values, FLOAT32, ...shape, PREDICT[output], FIRST, ALL, settings, this.#length, result];
  }

  #take(result: Float64Array): Float32Array {
    const length = Number(this.#length[0]);
    if (length !== result.length) throw new ForestError("LightGBM", `gave ${length} values, expected ${result.length}`);
    return Float32Array.from(result);
  }
}
