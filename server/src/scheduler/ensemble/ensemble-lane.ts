/**
 * The short way of a streamed response through an ensemble: the step behind the decoupled one answers in the call, and the
 * ensemble's response is made without contexts and requests between. It serves responses that differ from the one before
 * them in data only; that one went the long way (`EnsembleRun`) and was validated there.
 */
import { type InferRequest, originOf, type RequestOrigin } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import type { ModelSignature } from "../../core/model-signature.ts";
import { ResponsePattern } from "../../core/response-pattern.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { ExecutionTiming } from "../execution-timing.ts";
import type { EnsemblePlan, EnsembleStep } from "./ensemble-plan.ts";
import type { EnsembleRoute } from "./ensemble-route.ts";
import { fitBatch } from "./fit-batch.ts";

type OnTiming = (timing: ExecutionTiming) => void;

/** A composing model that can answer in the call. */
export interface DirectModel {
  readonly signature: ModelSignature;
  /** Undefined: not now, so the request has to be submitted. @throws ServerError of the model */
  readonly runNow?:
    | ((inputs: readonly Tensor[], origin: RequestOrigin, onTiming: OnTiming) => readonly Tensor[] | undefined)
    | undefined;
}

/** Source of a tensor. */
type Source =
  | { readonly kind: "constant"; readonly tensor: Tensor }
  /** Output `at` of the response, under another name and shape. */
  | { readonly kind: "response"; readonly at: number; readonly name: string; readonly shape: readonly number[] }
  /** An output of the step behind. */
  | { readonly kind: "made"; readonly output: string; readonly name: string };

interface Lane {
  readonly model: DirectModel | undefined;
  /** Inputs of the next step, if there is one. */
  readonly inputs: readonly Source[];
  /** Outputs of the ensemble, in the order of its responses. */
  readonly outputs: readonly Source[];
}

export interface LaneOptions {
  readonly plan: EnsemblePlan;
  readonly route: EnsembleRoute;
  readonly request: InferRequest;
  readonly outputNames: readonly string[];
  readonly model: (step: EnsembleStep) => DirectModel;
  /** A tensor of the ensemble that is there before the stream begins. */
  readonly outer: (tensor: string) => Tensor | undefined;
  /** A tensor in the shape of the ensemble's output of that name. */
  readonly fitOutput: (tensor: Tensor, name: string) => Tensor;
  readonly onTiming: OnTiming;
}

export class EnsembleLane {
  readonly #options: LaneOptions;
  readonly #step: EnsembleStep;
  readonly #origin: RequestOrigin;
  readonly #pattern = new ResponsePattern(true);
  #lane: Lane | undefined;

  /** `step`: the decoupled one. */
  constructor(step: EnsembleStep, options: LaneOptions) {
    this.#step = step;
    this.#options = options;
    this.#origin = { ...originOf(options.request), isLast: false };
  }

  /** Outputs of the ensemble for a response that is not the last; undefined: it must go the long way. @throws ServerError */
  run(response: InferResponse): readonly Tensor[] | undefined {
    const likeness = this.#pattern.compare(response);
    if (likeness === "unlike") return undefined;
    if (likeness === "learned") this.#lane = this.#plan(response);
    return this.#lane === undefined ? undefined : this.#runLane(this.#lane, response);
  }

  #runLane({ model, inputs, outputs }: Lane, response: InferResponse): readonly Tensor[] | undefined {
    if (model === undefined) return outputs.map((source) => this.#tensorFrom(source, response, []));
    const tensors = inputs.map((source) => this.#tensorFrom(source, response, []));
    const made = model.runNow?.(tensors, this.#origin, this.#options.onTiming);
    return made && outputs.map((source) => this.#tensorFrom(source, response, made));
  }

  #tensorFrom(source: Source, response: InferResponse, made: readonly Tensor[]): Tensor {
    switch (source.kind) {
      case "constant":
        return source.tensor;
      case "response": {
        const { datatype, data } = response.outputs[source.at] as Tensor; // the pattern compared their number
        return { name: source.name, datatype, shape: source.shape, data };
      }
      case "made": {
        const found = made.find(({ name }) => name === source.output);
        if (found === undefined) throw new Error(`the model behind the stream made no '${source.output}'`);
        return { ...this.#options.fitOutput(found, source.name), name: source.name };
      }
    }
  }

  /** Undefined: a step cannot answer in the call, or an output is missing. */
  #plan(response: InferResponse): Lane | undefined {
    const { plan, route, outputNames, model: modelOf, fitOutput } = this.#options;
    const behind = plan.steps.filter(({ index, origin }) => origin === this.#step.index && route.needed.has(index));
    const [only] = behind;
    // With several steps some could answer and others not, which would then run twice.
    if (behind.length > 1 || only?.isDecoupled === true) return undefined;
    const model = only && modelOf(only);
    if (model !== undefined && model.runNow === undefined) return undefined;
    const outputs: Source[] = [];
    for (const name of [...outputNames].reverse()) {
      // last to first, as Triton does
      const source = madeBy(only, name) ?? this.#sourceOf(name, name, response, (t) => fitOutput(t, name));
      if (source === undefined) return undefined;
      outputs.push(source);
    }
    const inputs = only && model ? this.#inputsOf(only, model.signature, response) : [];
    return inputs && { model, inputs, outputs };
  }

  /** Undefined: the model wants another datatype. */
  #inputsOf(
    step: EnsembleStep,
    { inputs: expected, maxBatchSize }: ModelSignature,
    response: InferResponse,
  ): Source[] | undefined {
    const sources: Source[] = [];
    for (const [input, tensor] of step.inputs) {
      const { datatype, dims } = expected.get(input) ?? {};
      const fit = (found: Tensor): Tensor => fitBatch(found, maxBatchSize > 0, dims?.length ?? found.shape.length);
      const source = this.#sourceOf(tensor, input, response, fit);
      if (source === undefined) continue;
      if (datatypeFrom(source, response) !== datatype) return undefined;
      sources.push(source);
    }
    return sources;
  }

  /** Undefined: there is no such tensor. */
  #sourceOf(
    tensor: string,
    name: string,
    { outputs }: InferResponse,
    fit: (tensor: Tensor) => Tensor,
  ): Source | undefined {
    const streamed = outputOf(this.#step, tensor);
    const at = outputs.findIndex((output) => output.name === streamed);
    const found = streamed === undefined ? this.#options.outer(tensor) : outputs[at];
    if (found === undefined) return undefined;
    const fitted = fit(found);
    if (this.#pattern.changes[at] === true) return { kind: "response", at, name, shape: fitted.shape };
    return { kind: "constant", tensor: { ...fitted, name } };
  }
}

/** The output of a step's model that is this tensor of the ensemble. */
function outputOf({ outputs }: EnsembleStep, tensor: string): string | undefined {
  for (const [output, made] of outputs) if (made === tensor) return output;
  return undefined;
}

function datatypeFrom(source: Source, { outputs }: InferResponse): string | undefined {
  if (source.kind === "constant") return source.tensor.datatype;
  return source.kind === "response" ? outputs[source.at]?.datatype : undefined;
}

function madeBy(step: EnsembleStep | undefined, name: string): Source | undefined {
  const output = step && outputOf(step, name);
  return output === undefined ? undefined : { kind: "made", output, name };
}
