/**
 * XGBoost's C library: models in JSON and UBJSON, computed without a matrix of their own. Sources: XGBoost documentation,
 * "XGBoost C Package" (c_api.h), and "Introduction to Model IO". Does not know the use of a model.
 */

import { CheckedCalls } from "../checked-calls.ts";
import {
  type Address,
  addressOf,
  copyFromMemory,
  cString,
  type NativeFunction,
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
  type ForestOutput,
  type ForestRows,
  NO_REASON,
  outputLength,
} from "./forest.ts";

export const XGBOOST_LIBRARY: PythonLibrarySpec = {
  title: "XGBoost",
  pipName: "xgboost-cpu",
  override: "NEREID_XGBOOST_LIB",
  setting: "fil,xgboost-library",
  file: "xgboost/lib/libxgboost.so",
};

type Call<Args extends unknown[]> = NativeFunction<Args, number>;
type Prediction = [Address, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer];

interface Functions {
  readonly create: Call<[Pointer, bigint, Pointer]>;
  readonly load: Call<[Address, Pointer, bigint]>;
  readonly setParam: Call<[Address, Pointer, Pointer]>;
  readonly saveConfig: Call<[Address, Pointer, Pointer]>;
  readonly predictRows: Call<Prediction>;
  readonly predictMatrix: Call<[Address, Address, Pointer, Pointer, Pointer, Pointer]>;
  readonly createMatrix: Call<[Pointer, Pointer, Pointer]>;
  readonly freeMatrix: Call<[Address]>;
  readonly free: Call<[Address]>;
}

/** Iterations 0 to 0: all trees. Shapes are strict, so that one row looks as several do. */
const PREDICTION = { training: false, iteration_begin: 0, iteration_end: 0, strict_shape: true };
/** JSON of C++, which knows NaN. */
const ROWS_CONFIG: Uint8Array = cString(JSON.stringify({ type: 0, ...PREDICTION }).replace("}", ',"missing":NaN}'));
const CONTRIBUTIONS_CONFIG: Uint8Array = cString(JSON.stringify({ type: 2, ...PREDICTION }));
const MATRIX_CONFIG: Uint8Array = cString('{"missing":NaN,"nthread":1}');
const LINEAR = "gblinear";

export class XgboostLibrary {
  readonly version: string;
  readonly path: string;
  readonly #functions: Functions;
  readonly #calls: CheckedCalls;

  /** @throws Error with the reason of the dynamic linker */
  constructor(path: string) {
    const library = openLibrary(path);
    const lastError = library.func<[], string | null>("XGBGetLastError", "str", []);
    this.path = path;
    this.version = readVersion(library.func("XGBoostVersion", "void", ["void*", "void*", "void*"]));
    this.#calls = new CheckedCalls(() => new ForestError("XGBoost", lastError() ?? NO_REASON));
    this.#functions = {
      create: library.func("XGBoosterCreate", "int", ["void*", "uint64", "void*"]),
      load: library.func("XGBoosterLoadModelFromBuffer", "int", ["void*", "void*", "uint64"]),
      setParam: library.func("XGBoosterSetParam", "int", ["void*", "void*", "void*"]),
      saveConfig: library.func("XGBoosterSaveJsonConfig", "int", ["void*", "void*", "void*"]),
      predictRows: library.func("XGBoosterPredictFromDense", "int", new Array<string>(7).fill("void*")),
      predictMatrix: library.func("XGBoosterPredictFromDMatrix", "int", new Array<string>(6).fill("void*")),
      createMatrix: library.func("XGDMatrixCreateFromDense", "int", ["void*", "void*", "void*"]),
      freeMatrix: library.func("XGDMatrixFree", "int", ["void*"]),
      free: library.func("XGBoosterFree", "int", ["void*"]),
    };
  }

  /** `content`: of a JSON or UBJSON file. @throws ForestError when it is no tree model */
  async load(content: Uint8Array, options: ForestOptions): Promise<ForestModel> {
    const first = await this.#createBooster(content, options);
    let idle: Forest | undefined = first;
    return {
      info: first.info,
      outputs: ["values", "contributions"],
      createForest: async () => {
        // The results of a booster are its own, so each instance has one.
        const forest = idle ?? (await this.#createBooster(content, options));
        idle = undefined;
        return forest;
      },
      close: () => idle?.close(),
    };
  }

  async #createBooster(content: Uint8Array, options: ForestOptions): Promise<XgboostForest> {
    const out = new BigUint64Array(1);
    this.#calls.check(this.#functions.create(null, 0n, out));
    const booster = out[0] ?? 0n;
    try {
      this.#set(booster, "nthread", String(options.numThreads));
      await this.#calls.callAsync(this.#functions.load, booster, content, BigInt(content.byteLength));
      return new XgboostForest(this.#functions, this.#calls, booster, this.#readInfo(booster));
    } catch (error) {
      this.#functions.free(booster);
      throw error;
    }
  }

  #readInfo(booster: Address): ForestInfo {
    const [length, text] = [new BigUint64Array(1), new BigUint64Array(1)];
    this.#calls.check(this.#functions.saveConfig(booster, length, text));
    const json = new Uint8Array(Number(length[0]));
    copyFromMemory(json, text[0] ?? 0n);
    const config = readConfig(JSON.parse(new TextDecoder().decode(json)));
    if (config.booster === LINEAR) throw new ForestError("XGBoost", `the model is of ${LINEAR}, expected trees`);
    if (config.objective === "multi:softmax") {
      // Gives the class alone, where the caller needs the scores; the other objective is the same but for that.
      this.#set(booster, "objective", "multi:softprob");
      this.#set(booster, "num_class", String(config.numOutputs));
    }
    return { numFeatures: config.numFeatures, numOutputs: config.numOutputs };
  }

  #set(booster: Address, name: string, value: string): void {
    this.#calls.check(this.#functions.setParam(booster, cString(name), cString(value)));
  }
}

class XgboostForest implements Forest {
  readonly info: ForestInfo;
  readonly #functions: Functions;
  readonly #calls: CheckedCalls;
  readonly #booster: Address;
  /** Written by C: address of the shape, its length, address of the result, handle of a matrix. */
  readonly #shape = new BigUint64Array(1);
  readonly #rank = new BigUint64Array(1);
  readonly #result = new BigUint64Array(1);
  readonly #matrix = new BigUint64Array(1);

  constructor(functions: Functions, calls: CheckedCalls, booster: Address, info: ForestInfo) {
    this.#functions = functions;
    this.#calls = calls;
    this.#booster = booster;
    this.info = info;
  }

  predict(rows: ForestRows, output: ForestOutput): Float32Array {
    const array = this.#describe(rows);
    if (output === "values") {
      this.#calls.check(this.#functions.predictRows(...this.#prediction(array)));
      return this.#take(rows, output);
    }
    this.#calls.check(this.#functions.createMatrix(array, MATRIX_CONFIG, this.#matrix));
    try {
      this.#calls.check(this.#functions.predictMatrix(...this.#contribution()));
      return this.#take(rows, output);
    } finally {
      this.#functions.freeMatrix(this.#matrix[0] ?? 0n);
    }
  }

  async predictAsync(rows: ForestRows, output: ForestOutput): Promise<Float32Array> {
    const array = this.#describe(rows);
    if (output === "values") {
      await this.#calls.callAsync(this.#functions.predictRows, ...this.#prediction(array));
      return this.#take(rows, output);
    }
    await this.#calls.callAsync(this.#functions.createMatrix, array, MATRIX_CONFIG, this.#matrix);
    try {
      await this.#calls.callAsync(this.#functions.predictMatrix, ...this.#contribution());
      return this.#take(rows, output);
    } finally {
      this.#functions.freeMatrix(this.#matrix[0] ?? 0n);
    }
  }

  close(): void {
    this.#functions.free(this.#booster);
  }

  /** The array interface protocol of NumPy, version 3: C reads the rows where they are. */
  #describe({ values, numRows }: ForestRows): Uint8Array {
    const data = `[${addressOf(values)},true]`;
    return cString(
      `{"data":${data},"shape":[${numRows},${this.info.numFeatures}],"typestr":"<f4","version":3,"strides":null}`,
    );
  }

  #prediction(array: Uint8Array): Prediction {
    return [this.#booster, array, ROWS_CONFIG, null, this.#shape, this.#rank, this.#result];
  }

  #contribution(): [Address, Address, Pointer, Pointer, Pointer, Pointer] {
    return [this.#booster, this.#matrix[0] ?? 0n, CONTRIBUTIONS_CONFIG, this.#shape, this.#rank, this.#result];
  }

  /**
   * The result lies in memory of the booster for the thread that made it, until that thread computes with the same booster
   * again: copied before the next computation, it is whole.
   */
  #take({ numRows }: ForestRows, output: ForestOutput): Float32Array {
    const shape = new BigUint64Array(Number(this.#rank[0]));
    copyFromMemory(new Uint8Array(shape.buffer), this.#shape[0] ?? 0n);
    const length = Number(shape.reduce((product, size) => product * size, 1n));
    const expected = outputLength(this.info, output, numRows);
    if (length !== expected) throw new ForestError("XGBoost", `gave ${length} values, expected ${expected}`);
    const result = new Float32Array(length);
    copyFromMemory(new Uint8Array(result.buffer), this.#result[0] ?? 0n);
    return result;
  }
}

interface BoosterConfig extends ForestInfo {
  readonly booster: string;
  readonly objective: string;
}

interface LearnerConfig {
  readonly learner?: {
    readonly learner_model_param?: Readonly<Record<string, string>>;
    readonly gradient_booster?: { readonly name?: string };
    readonly objective?: { readonly name?: string };
  };
}

/** Reads the text of `XGBoosterSaveJsonConfig`, whose numbers are texts. */
function readConfig(value: unknown): BoosterConfig {
  const { learner } = value as LearnerConfig;
  const number = (name: string): number => Number(learner?.learner_model_param?.[name] ?? 0);
  return {
    numFeatures: number("num_feature"),
    numOutputs: Math.max(1, number("num_class"), number("num_target")),
    booster: learner?.gradient_booster?.name ?? "",
    objective: learner?.objective?.name ?? "",
  };
}

function readVersion(read: NativeFunction<[Pointer, Pointer, Pointer], void>): string {
  const parts = [new Int32Array(1), new Int32Array(1), new Int32Array(1)] as const;
  read(...parts);
  return parts.map(([part = 0]) => part).join(".");
}
