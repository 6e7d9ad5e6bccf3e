/**
 * Treelite's C library: checkpoints of scikit-learn's and cuML's models, and XGBoost's old binary files, computed by GTIL.
 * Source: treelite documentation, "C API" (c_api.h, version 4). Does not know the use of a model.
 */

import { CheckedCalls } from "../checked-calls.ts";
import {
  type Address,
  copyFromMemory,
  cString,
  type NativeFunction,
  type NativeLibrary,
  openLibrary,
  type Pointer,
} from "../ffi.ts";
import type { PythonLibrarySpec } from "../python-library.ts";
import {
  type Forest,
  ForestError,
  type ForestInfo,
  type ForestModel,
  type ForestOptions,
  type ForestRows,
  NO_REASON,
} from "./forest.ts";

export const TREELITE_LIBRARY: PythonLibrarySpec = {
  title: "treelite",
  pipName: "treelite",
  override: "NEREID_TREELITE_LIB",
  setting: "fil,treelite-library",
  file: "treelite/lib/libtreelite.so",
};

export type TreeliteFormat = "checkpoint" | "xgboost-binary";

type Call<Args extends unknown[]> = NativeFunction<Args, number>;
type Prediction = [Address, Pointer, Pointer, bigint, Pointer, Address];

interface Functions {
  readonly loadCheckpoint: Call<[Pointer, Pointer]>;
  readonly loadBinary: Call<[Pointer, Pointer, Pointer]>;
  readonly free: Call<[Address]>;
  readonly numFeatures: Call<[Address, Pointer]>;
  readonly inputType: Call<[Address, Pointer]>;
  readonly outputType: Call<[Address, Pointer]>;
  readonly parseConfig: Call<[Pointer, Pointer]>;
  readonly freeConfig: Call<[Address]>;
  readonly outputShape: Call<[Address, bigint, Address, Pointer, Pointer]>;
  readonly predict: Call<Prediction>;
}

export class TreeliteLibrary {
  readonly path: string;
  readonly #functions: Functions;
  readonly #calls: CheckedCalls;

  /** @throws Error with the reason of the dynamic linker, or when the version has no GTIL in its C API */
  constructor(path: string) {
    const library = openLibrary(path);
    this.path = path;
    const lastError = library.func<[], string | null>("TreeliteGetLastError", "str", []);
    this.#calls = new CheckedCalls(() => new ForestError("treelite", lastError() ?? NO_REASON));
    this.#functions = loadFunctions(library);
  }

  /** @throws ForestError when the file is no such model */
  async load(modelPath: string, format: TreeliteFormat, { numThreads }: ForestOptions): Promise<ForestModel> {
    const functions = this.#functions;
    const [out, path] = [new BigUint64Array(1), cString(modelPath)];
    if (format === "checkpoint") await this.#calls.callAsync(functions.loadCheckpoint, path, out);
    else await this.#calls.callAsync(functions.loadBinary, path, cString("{}"), out);
    const model = out[0] ?? 0n;
    const settings = cString(JSON.stringify({ predict_type: "default", nthread: numThreads }));
    this.#calls.check(functions.parseConfig(settings, out));
    const config = out[0] ?? 0n;
    const close = (): void => {
      functions.freeConfig(config);
      functions.free(model);
    };
    try {
      const context = { functions, calls: this.#calls, model, config, ...this.#describe(model, config) };
      return { info: context.info, outputs: ["values"], createForest: async () => new TreeliteForest(context), close };
    } catch (error) {
      close();
      throw error;
    }
  }

  #describe(model: Address, config: Address): Pick<TreeliteContext, "info" | "isDouble"> {
    const { numFeatures, inputType, outputType, outputShape } = this.#functions;
    const count = new Int32Array(1);
    this.#calls.check(numFeatures(model, count));
    const [shape, rank] = [new BigUint64Array(1), new BigUint64Array(1)];
    this.#calls.check(outputShape(model, 1n, config, shape, rank));
    const sizes = new BigUint64Array(Number(rank[0]));
    copyFromMemory(new Uint8Array(sizes.buffer), shape[0] ?? 0n);
    const types = [this.#readText(inputType, model), this.#readText(outputType, model)];
    if (types[0] !== types[1]) throw new ForestError("treelite", `the model maps ${types[0]} to ${types[1]}`);
    const numOutputs = Number(sizes.reduce((product, size) => product * size, 1n));
    return { info: { numFeatures: count[0] ?? 0, numOutputs }, isDouble: types[0] === "float64" };
  }

  #readText(read: Call<[Address, Pointer]>, model: Address): string {
    const out = new BigUint64Array(1);
    this.#calls.check(read(model, out));
    const bytes = new Uint8Array("float64".length);
    copyFromMemory(bytes, out[0] ?? 0n);
    return new TextDecoder().decode(bytes);
  }
}

function loadFunctions(library: NativeLibrary): Functions {
  return {
    loadCheckpoint: library.func("TreeliteDeserializeModelFromFile", "int", ["void*", "void*"]),
    loadBinary: library.func("TreeliteLoadXGBoostModelLegacyBinary", "int", ["void*", "void*", "void*"]),
    free: library.func("TreeliteFreeModel", "int", ["void*"]),
    numFeatures: library.func("TreeliteQueryNumFeature", "int", ["void*", "void*"]),
    inputType: library.func("TreeliteGetInputType", "int", ["void*", "void*"]),
    outputType: library.func("TreeliteGetOutputType", "int", ["void*", "void*"]),
    parseConfig: library.func("TreeliteGTILParseConfig", "int", ["void*", "void*"]),
    freeConfig: library.func("TreeliteGTILDeleteConfig", "int", ["void*"]),
    outputShape: library.func("TreeliteGTILGetOutputShape", "int", ["void*", "uint64", "void*", "void*", "void*"]),
    predict: library.func("TreeliteGTILPredict", "int", ["void*", "void*", "void*", "uint64", "void*", "void*"]),
  };
}

interface TreeliteContext {
  readonly functions: Functions;
  readonly calls: CheckedCalls;
  /** Both may be used by any number of threads. */
  readonly model: Address;
  readonly config: Address;
  readonly info: ForestInfo;
  /** Thresholds and leaves are FP64, as scikit-learn's are: then so are inputs and results, as GTIL has it. */
  readonly isDouble: boolean;
}

const FLOAT32: Uint8Array = cString("float32");
const FLOAT64: Uint8Array = cString("float64");

class TreeliteForest implements Forest {
  readonly #context: TreeliteContext;

  constructor(context: TreeliteContext) {
    this.#context = context;
  }

  predict(rows: ForestRows): Float32Array {
    const { functions, calls } = this.#context;
    const { args, result } = this.#prepare(rows);
    calls.check(functions.predict(...args));
    return Float32Array.from(result);
  }

  async predictAsync(rows: ForestRows): Promise<Float32Array> {
    const { functions, calls } = this.#context;
    const { args, result } = this.#prepare(rows);
    await calls.callAsync(functions.predict, ...args);
    return Float32Array.from(result);
  }

  close(): void {
    // The model belongs to all its forests.
  }

  #prepare({ values, numRows }: ForestRows): { args: Prediction; result: Float32Array | Float64Array } {
    const { model, config, info, isDouble } = this.#context;
    const length = numRows * info.numOutputs;
    const result = isDouble ? new Float64Array(length) : new Float32Array(length);
    const input = isDouble ? Float64Array.from(values) : values;
    return { args: [model, input, isDouble ? FLOAT64 : FLOAT32, BigInt(numRows), result, config], result };
  }
}
