/** A model server in memory for the tests of this folder: a few models whose answers are computed, and no repository. */
import type { Datatype } from "@nereid/wire";
import type { InferRequest } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import type {
  LoadOptions,
  LogSettings,
  ModelIndexEntry,
  ModelMetadata,
  ModelServer,
  ModelStatistics,
  ServedModel,
  ServerState,
  TensorMetadata,
} from "../../core/model-server.ts";
import type { TraceSettings } from "../../core/request-trace.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import { canonicalVersion } from "../../core/version-text.ts";

type Run = (request: InferRequest) => AsyncIterable<InferResponse>;

export class FakeModelServer implements ModelServer {
  state: ServerState = "running";
  readonly name = "fake";
  readonly version = "1.2.3";
  readonly extensions: readonly string[] = ["statistics"];
  readonly isExplicit = true;
  /** Samples nothing, unless a test says otherwise. */
  tracing: ModelServer["tracing"] = { isOn: false, start: () => undefined };
  isReady = true;
  readonly seen: InferRequest[] = [];
  readonly loads: { readonly name: string; readonly options: LoadOptions }[] = [];
  readonly unloads: { readonly name: string; readonly dependents: boolean }[] = [];
  #settings: LogSettings = {
    log_file: "",
    log_info: true,
    log_warning: true,
    log_error: true,
    log_verbose_level: 0,
    log_format: "default",
  };
  readonly #models: ReadonlyMap<string, ServedModel>;

  constructor() {
    const models: [string, boolean, Run][] = [
      ["simple", false, addSubtract],
      ["echo", false, echo],
      ["repeat", true, repeat],
      ["slow", false, untilAborted],
      ["fails", false, failing],
      ["broken", false, throwing],
      ["late", false, late],
    ];
    this.#models = new Map(models.map(([name, decoupled, run]) => [name, this.#served(name, decoupled, run)]));
  }

  #served(name: string, decoupled: boolean, run: Run): ServedModel {
    const infer = (request: InferRequest): AsyncIterable<InferResponse> => {
      this.seen.push(request);
      return run(request);
    };
    const inputs = new Map<string, TensorMetadata>([["INPUT0", { name: "INPUT0", datatype: "INT32", shape: [-1, 4] }]]);
    const label = (_output: string, index: number): string | undefined => (index === 0 ? "zero" : undefined);
    return { name, version: "1", config: configOf(name), inputs, outputs: new Map(), decoupled, label, infer };
  }

  ready(): boolean {
    return this.isReady;
  }

  model(name: string, version: string): ServedModel {
    const model = this.#models.get(name);
    if (model === undefined || (version !== "" && version !== "1")) {
      throw new ServerError("not_found", `Request for unknown model: '${name}' is not found`);
    }
    return model;
  }

  async modelReady(name: string, version: string): Promise<boolean> {
    return ["", "1"].includes(canonicalVersion(version)) && this.#models.has(name);
  }

  modelMetadata(name: string, version: string): ModelMetadata {
    const model = this.model(name, version);
    return { name, versions: ["1"], platform: "fake", inputs: [...model.inputs.values()], outputs: [] };
  }

  statistics(name: string): readonly ModelStatistics[] {
    const zero = { count: 0, ns: 0 };
    const one = { count: 1, ns: 5_000_000_000 };
    const compute = { compute_input: zero, compute_infer: one, compute_output: zero };
    return [
      {
        name,
        version: "1",
        last_inference: 1_790_000_000_000,
        inference_count: 3,
        execution_count: 2,
        inference_stats: { success: one, fail: zero, queue: zero, ...compute, cache_hit: zero, cache_miss: zero },
        response_stats: {
          "0": {
            compute_infer: one,
            compute_output: zero,
            success: one,
            fail: zero,
            empty_response: zero,
            cancel: zero,
          },
        },
        batch_stats: [{ batch_size: 1, ...compute }],
        memory_usage: [],
      },
    ];
  }

  index(readyOnly: boolean): readonly ModelIndexEntry[] {
    const ready: ModelIndexEntry = { name: "simple", version: "1", state: "READY" };
    return readyOnly ? [ready] : [ready, { name: "never" }];
  }

  async load(name: string, options: LoadOptions): Promise<void> {
    this.loads.push({ name, options });
  }

  async unload(name: string, dependents: boolean): Promise<void> {
    this.unloads.push({ name, dependents });
  }

  /** `path folder name` of each, while it is registered. */
  readonly registered: string[] = [];

  registerRepository(path: string, folder: string, name: string): void {
    if (this.registered.some((line) => line.startsWith(`${path} `))) {
      throw new ServerError("already_exists", `model repository '${path}' has already been registered`);
    }
    this.registered.push(`${path} ${folder} ${name}`);
  }

  unregisterRepository(path: string): void {
    const at = this.registered.findIndex((line) => line.startsWith(`${path} `));
    this.registered.splice(at, 1);
  }

  traceSettings(): TraceSettings {
    return { mode: "triton", levels: [], rate: 1000, count: -1, logFrequency: 0, file: "", modeSettings: [] };
  }

  updateTraceSettings(): TraceSettings {
    return this.traceSettings();
  }

  logSettings(): LogSettings {
    return this.#settings;
  }

  updateLogSettings(changes: Partial<LogSettings>): LogSettings {
    this.#settings = { ...this.#settings, ...changes };
    return this.#settings;
  }
}

async function* addSubtract(request: InferRequest): AsyncIterable<InferResponse> {
  const [a, b] = request.inputs.map((input) => int32Values(input));
  const sums = (a ?? []).map((value, k) => value + (b?.[k] ?? 0));
  const differences = (a ?? []).map((value, k) => value - (b?.[k] ?? 0));
  const shape = request.inputs[0]?.shape ?? [];
  yield response(request, [int32Tensor("OUTPUT0", shape, sums), int32Tensor("OUTPUT1", shape, differences)], true);
}

async function* echo(request: InferRequest): AsyncIterable<InferResponse> {
  const outputs = request.inputs.map((input) => ({ ...input, name: `ECHO_${input.name}` }));
  yield { ...response(request, outputs, true), parameters: request.parameters };
}

/** One response for each element, an error for the value -1, and a bare final flag. */
async function* repeat(request: InferRequest): AsyncIterable<InferResponse> {
  for (const value of request.inputs[0] === undefined ? [] : int32Values(request.inputs[0])) {
    const error = new ServerError("internal", "planned failure");
    if (value === -1) yield { ...response(request, [], false), error };
    else yield response(request, [int32Tensor("OUT", [1], [value])], false);
  }
  yield { ...response(request, [], true), empty: true };
}

async function* untilAborted(request: InferRequest): AsyncIterable<InferResponse> {
  await new Promise((resolve) => request.signal.addEventListener("abort", resolve));
  if (request.signal.aborted) throw new ServerError("cancelled", "Request was cancelled");
  yield response(request, [], true);
}

async function* failing(request: InferRequest): AsyncIterable<InferResponse> {
  if (request.id === "queued") throw new ServerError("unavailable", "gave up", { wasQueued: true });
  if (request.id !== "late") throw new ServerError("not_found", "planned: 100 % späte Grüße");
  yield response(request, [], true);
}

async function* throwing(request: InferRequest): AsyncIterable<InferResponse> {
  if (request.id !== "never") throw new TypeError("secret");
  yield response(request, [], true);
}

async function* late(request: InferRequest): AsyncIterable<InferResponse> {
  await new Promise((resolve) => setTimeout(resolve, 30));
  yield response(request, [], true);
}

function response(request: InferRequest, outputs: readonly Tensor[], final: boolean): InferResponse {
  const { modelName, id } = request;
  return { modelName, modelVersion: "1", id, parameters: new Map(), outputs, final, empty: false };
}

export function int32Values(tensor: Pick<Tensor, "data">): number[] {
  const view = new DataView(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
  return Array.from({ length: tensor.data.byteLength / 4 }, (_, k) => view.getInt32(4 * k, true));
}

export function int32Tensor(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  const datatype: Datatype = "INT32";
  return { name, datatype, shape, data: new Uint8Array(Int32Array.from(values).buffer) };
}

function configOf(name: string): ModelConfig {
  return {
    name,
    platform: "fake",
    version_policy: { latest: { num_versions: 1 } },
    max_batch_size: 8,
    input: [],
    output: [],
    instance_group: [],
    default_model_filename: "",
    cc_model_filenames: {},
    metric_tags: { a: "b" },
    parameters: {},
    model_warmup: [],
    backend: "fake",
    batch_input: [],
    batch_output: [],
    runtime: "",
  };
}
