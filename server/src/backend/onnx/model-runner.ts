/** Runs a session, on the event loop when that is short and on another thread otherwise. Knows tensors, not requests. */
import { type InferRequest, isCancelled } from "../../core/infer-request.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { OutputRequest } from "../../native/onnxruntime/frame.ts";
import type { OnnxSession } from "../../native/onnxruntime/session.ts";
import { OnnxRuntimeError } from "../../native/onnxruntime/status.ts";
import type { RunGate } from "../native-run/run-gate.ts";
import { RunPolicy } from "../native-run/run-policy.ts";
import type { TurnBudget } from "../native-run/turn-budget.ts";
import { OutputPlan } from "./output-plan.ts";

const US_PER_MS = 1000;

export interface RunnerContext {
  readonly session: OnnxSession;
  readonly budget: TurnBudget;
  readonly gate: RunGate;
  /** Runs are never made on the event loop: one on a GPU waits for it, and would have another thread remembered there. */
  readonly isElsewhere?: boolean;
}

/** One per model version; its instances share it, since a session runs any number of times at once. */
export class ModelRunner {
  readonly session: OnnxSession;
  readonly #budget: TurnBudget;
  readonly #gate: RunGate;
  readonly #isElsewhere: boolean;
  readonly #policy = new RunPolicy();
  readonly #plan: OutputPlan;
  /** False once the model gave an output another shape than it declares. */
  #isPlanTrusted = true;

  constructor({ session, budget, gate, isElsewhere = false }: RunnerContext) {
    this.session = session;
    this.#budget = budget;
    this.#gate = gate;
    this.#isElsewhere = isElsewhere;
    this.#plan = new OutputPlan(session.info);
  }

  hasOutput(name: string): boolean {
    return this.#plan.has(name);
  }

  /**
   * Outputs at once when the run was made on the event loop, else a promise of them. Given `requests`, the run stops
   * once all of them are cancelled. @throws OnnxRuntimeError
   */
  run(
    inputs: readonly Tensor[],
    outputNames: readonly string[],
    requests: () => readonly InferRequest[],
  ): Tensor[] | Promise<Tensor[]> {
    const bytes = inputs.reduce((sum, { data }) => sum + data.byteLength, 0);
    const outputs = this.#requests(inputs, outputNames);
    if (this.#isElsewhere || !this.#budget.isLeft() || !this.#policy.maySync(bytes)) {
      return this.#runAsync(inputs, outputs, requests, bytes);
    }
    const startMs = performance.now();
    try {
      return this.session.run(inputs, outputs);
    } catch (error) {
      if (!this.#mayRetry(error, outputs)) throw error;
      const retried = this.session.run(inputs, withoutTargets(outputs));
      this.#isPlanTrusted = false;
      return retried;
    } finally {
      const us = (performance.now() - startMs) * US_PER_MS;
      this.#policy.ranSync(bytes, us);
      this.#budget.spend(us);
    }
  }

  #requests(inputs: readonly Tensor[], names: readonly string[]): OutputRequest[] {
    return names.map((name) => (this.#isPlanTrusted ? this.#plan.request(name, inputs) : { name }));
  }

  async #runAsync(
    inputs: readonly Tensor[],
    outputs: readonly OutputRequest[],
    requests: () => readonly InferRequest[],
    bytes: number,
  ): Promise<Tensor[]> {
    await this.#gate.enter();
    try {
      const startMs = performance.now();
      const tensors = await this.#runStoppable(inputs, outputs, requests);
      this.#policy.ranAsync(bytes, (performance.now() - startMs) * US_PER_MS);
      return tensors;
    } catch (error) {
      if (!this.#mayRetry(error, outputs)) throw error;
      const retried = await this.#runStoppable(inputs, withoutTargets(outputs), requests);
      this.#isPlanTrusted = false;
      return retried;
    } finally {
      this.#gate.leave();
    }
  }

  async #runStoppable(
    inputs: readonly Tensor[],
    outputs: readonly OutputRequest[],
    requests: () => readonly InferRequest[],
  ): Promise<Tensor[]> {
    const run = this.session.runAsync(inputs, outputs);
    const unsubscribe = whenAllCancelled(requests(), () => run.terminate());
    try {
      return await run.outputs;
    } finally {
      unsubscribe();
    }
  }

  /** A wrong draft of an output's shape looks like any other failure: only the run without drafts tells them apart. */
  #mayRetry(error: unknown, outputs: readonly OutputRequest[]): boolean {
    return error instanceof OnnxRuntimeError && !error.isTermination && outputs.some(({ into }) => into !== undefined);
  }
}

function withoutTargets(outputs: readonly OutputRequest[]): OutputRequest[] {
  return outputs.map(({ name }) => ({ name }));
}

/**
 * Calls back once when the last of the requests is cancelled; returns the function that stops listening. It listens to
 * one request at a time: a signal is created on first use, and most batches run to their end.
 */
export function whenAllCancelled(requests: readonly InferRequest[], callback: () => void): () => void {
  let signal: AbortSignal | undefined;
  const listen = (): void => {
    signal = requests.find((request) => !isCancelled(request))?.signal;
    if (signal === undefined) callback();
    else signal.addEventListener("abort", listen, { once: true });
  };
  listen();
  return () => signal?.removeEventListener("abort", listen);
}
