/**
 * Lines about models and instances that Triton's backends write while one is loaded and unloaded. Scripts look for them.
 * Source: triton-inference-server/python_backend, python_be.cc; onnxruntime_backend, onnxruntime.cc.
 */
import type { InstanceSpec } from "../../backend/backend.ts";
import type { Logger } from "../../observe/log.ts";

/** Names of Triton's files, where they are not those of the backends. */
const LOCATIONS: ReadonlyMap<string, string> = new Map([
  ["python", "python_be"],
  ["vllm", "python_be"],
  ["pytorch", "libtorch"],
  ["tensorrtllm", "libtensorrtllm"],
]);

export class BackendLog {
  readonly #log: Logger;
  readonly #location: string;

  constructor(log: Logger, backend: string) {
    this.#log = log;
    this.#location = LOCATIONS.get(backend) ?? backend;
  }

  modelInitialized(name: string, version: number): void {
    this.#detail(`TRITONBACKEND_ModelInitialize: ${name} (version ${version})`);
  }

  /** Before the instance is made, so that a log shows which one takes its time. */
  instanceInitialized({ name, kind, deviceId }: InstanceSpec): void {
    const device = `${kind.slice("KIND_".length)} device ${deviceId}`;
    this.#log.info(this.#location, `TRITONBACKEND_ModelInstanceInitialize: ${name} (${device})`);
  }

  instanceFinalized(): void {
    this.#detail("TRITONBACKEND_ModelInstanceFinalize: delete instance state");
  }

  modelFinalized(): void {
    this.#detail("TRITONBACKEND_ModelFinalize: delete model state");
  }

  /** Triton's Python backend writes these lines as verbose ones. */
  #detail(message: string): void {
    if (this.#location === "python_be") this.#log.verbose(1, this.#location, message);
    else this.#log.info(this.#location, message);
  }
}
