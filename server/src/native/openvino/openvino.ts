/**
 * OpenVINO's core in this process: reads, reshapes and compiles models. Source: OpenVINO documentation, "OpenVINO Runtime C
 * API Reference". Does not know the use of a model.
 */
import { type Address, addressOf, copyFromMemory, cString, readCString } from "../ffi.ts";
import type { PythonLibrarySpec } from "../python-library.ts";
import { loadOpenvinoApi, type OpenvinoApi } from "./api.ts";
import { OpenvinoRequest } from "./request.ts";
import { datatypeOf, type PortInfo, typeNameOf } from "./types.ts";

export const OPENVINO_LIBRARY: PythonLibrarySpec = {
  title: "OpenVINO",
  pipName: "openvino",
  override: "NEREID_OPENVINO_LIB",
  setting: "openvino,library",
  file: "openvino/libs/libopenvino_c.so*",
};

/** Bytes of `ov_partial_shape_t`: the rank's limits and an address; of `ov_dimension_t`: two limits. */
const PARTIAL_SHAPE_BYTES = 24;
const DIMENSION_BYTES = 16;

export class OpenvinoLibrary {
  readonly path: string;
  readonly #api: OpenvinoApi;
  readonly #core: Address;

  /** @throws Error when the library can not be loaded or is too old */
  constructor(path: string) {
    this.path = path;
    this.#api = loadOpenvinoApi(path);
    const out = new BigUint64Array(1);
    this.#api.calls.check(this.#api.coreCreate(out));
    this.#core = out[0] ?? 0n;
  }

  /** Kernels of custom layers. @throws OpenvinoError */
  addExtension(path: string): void {
    this.#api.calls.check(this.#api.coreAddExtension(this.#core, cString(path)));
  }

  /** IR, ONNX, SavedModel and what else the library reads. @throws OpenvinoError */
  async read(modelPath: string): Promise<OpenvinoModel> {
    const out = new BigUint64Array(1);
    await this.#api.calls.callAsync(this.#api.coreReadModel, this.#core, cString(modelPath), null, out);
    return new OpenvinoModel(this.#api, this.#core, out[0] ?? 0n);
  }
}

export class OpenvinoModel {
  readonly #api: OpenvinoApi;
  readonly #core: Address;
  readonly #model: Address;

  constructor(api: OpenvinoApi, core: Address, model: Address) {
    this.#api = api;
    this.#core = core;
    this.#model = model;
  }

  get inputs(): readonly PortInfo[] {
    return this.#ports("inputs");
  }

  get outputs(): readonly PortInfo[] {
    return this.#ports("outputs");
  }

  /** Gives inputs other shapes, -1 for a free size. @throws OpenvinoError when the model does not allow them */
  reshape(shapes: ReadonlyMap<string, readonly number[]>): void {
    const names = [...shapes.keys()].map(cString);
    const dims = [...shapes.values()].map(packDims);
    const packed = new BigInt64Array((PARTIAL_SHAPE_BYTES / 8) * dims.length);
    for (const [index, sizes] of dims.entries()) {
      const rank = BigInt(sizes.length / 2);
      packed.set([rank, rank, sizes.length === 0 ? 0n : addressOf(sizes)], 3 * index);
    }
    const addresses = BigUint64Array.from(names, addressOf);
    this.#api.calls.check(this.#api.modelReshape(this.#model, addresses, packed, BigInt(names.length)));
  }

  /** Takes seconds for large models; on another thread. @throws OpenvinoError */
  async compile(device: string, properties: ReadonlyMap<string, string>): Promise<CompiledModel> {
    const texts = [...properties].flat().map(cString);
    const out = new BigUint64Array(1);
    const pairs = BigUint64Array.from(texts, addressOf);
    const count = BigInt(properties.size);
    const { calls, coreCompileModel } = this.#api;
    await calls.callAsync(coreCompileModel, this.#core, this.#model, cString(device), count, pairs, out);
    return new CompiledModel(this.#api, out[0] ?? 0n, this.outputs);
  }

  close(): void {
    this.#api.modelFree(this.#model);
  }

  #ports(kind: "inputs" | "outputs"): PortInfo[] {
    const out = new BigUint64Array(1);
    this.#api.calls.check(this.#api.modelSize[kind](this.#model, out));
    const count = Number(out[0]);
    return Array.from({ length: count }, (_, index) => {
      this.#api.calls.check(this.#api.modelPort[kind](this.#model, BigInt(index), out));
      const port = out[0] ?? 0n;
      try {
        return this.#readPort(port);
      } finally {
        this.#api.portFree(port);
      }
    });
  }

  #readPort(port: Address): PortInfo {
    const { calls, portName, portType, portShape, textFree, partialShapeFree } = this.#api;
    const [text, code] = [new BigUint64Array(1), new Int32Array(1)];
    calls.check(portName(port, text));
    const name = readCString(text[0] ?? 0n);
    textFree(text[0] ?? 0n);
    calls.check(portType(port, code));
    const shape = new BigInt64Array(PARTIAL_SHAPE_BYTES / 8);
    calls.check(portShape(port, shape));
    const dims = readDims(shape);
    partialShapeFree(shape);
    return { name, datatype: datatypeOf(code[0] ?? 0), typeName: typeNameOf(code[0] ?? 0), dims };
  }
}

/** A model for a device, which any number of requests may run at once. */
export class CompiledModel {
  readonly #api: OpenvinoApi;
  readonly #compiled: Address;
  readonly #outputs: readonly PortInfo[];

  constructor(api: OpenvinoApi, compiled: Address, outputs: readonly PortInfo[]) {
    this.#api = api;
    this.#compiled = compiled;
    this.#outputs = outputs;
  }

  createRequest(): OpenvinoRequest {
    const out = new BigUint64Array(1);
    this.#api.calls.check(this.#api.createRequest(this.#compiled, out));
    return new OpenvinoRequest(this.#api, out[0] ?? 0n, this.#outputs);
  }

  /** After its requests. */
  close(): void {
    this.#api.compiledFree(this.#compiled);
  }
}

/** Lower and upper limit of each. */
function packDims(dims: readonly number[]): BigInt64Array {
  return BigInt64Array.from(dims.flatMap((dim) => (dim < 0 ? [0n, -1n] : [BigInt(dim), BigInt(dim)])));
}

function readDims([minRank = 0n, maxRank = 0n, address = 0n]: BigInt64Array): readonly number[] | undefined {
  if (minRank !== maxRank) return undefined;
  const limits = new BigInt64Array((Number(maxRank) * DIMENSION_BYTES) / 8);
  copyFromMemory(new Uint8Array(limits.buffer), address);
  return Array.from({ length: Number(maxRank) }, (_, axis) =>
    limits[2 * axis] === limits[2 * axis + 1] ? Number(limits[2 * axis]) : -1,
  );
}
