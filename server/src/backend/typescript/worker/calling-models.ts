/** `models.<name>.infer(...)` and `.stream(...)`: calls from the code of a model to other models. Knows no execution. */
import type { CallPlan, PackedError, PackedTensor, ToThread } from "../messages.ts";
import type * as Api from "../model-api.ts";
import { errorOf } from "../model-error.ts";
import { TensorPacker } from "../pack-tensors.ts";
import { inputsByName, tensorOf } from "./model-tensors.ts";
import type { ThreadLink } from "./thread-link.ts";

type Outputs = Readonly<Record<string, Api.Tensor>>;
type AnswerMessage = Extract<ToThread, { readonly type: "answer" }>;
type PlanMessage = Extract<ToThread, { readonly type: "plan" }>;

/** Answers of a stream after which the server hears that they were taken. */
const TAKEN_STEP = 16;

/** The request on whose behalf a call is made. */
export interface Caller {
  readonly key: number;
  readonly signal: AbortSignal | undefined;
}

interface Call {
  readonly answers: AnswerMessage[];
  wake: (() => void) | undefined;
}

export class CallingModels {
  readonly #link: ThreadLink;
  readonly #calls = new Map<number, Call>();
  readonly #asked = new Map<number, { resolve(plan: CallPlan): void; reject(error: Error): void }>();
  /** Kept until a call fails: the model may have changed. */
  readonly #plans = new Map<string, Promise<CallPlan>>();
  #nextId = 1;

  constructor(link: ThreadLink) {
    this.#link = link;
  }

  models(caller: Caller): Api.Models {
    const handles = new Map<string, Api.ModelHandle>();
    const handleOf = (name: string): Api.ModelHandle => {
      const handle = handles.get(name) ?? this.#handle(name, caller);
      handles.set(name, handle);
      return handle;
    };
    return new Proxy(Object.create(null), {
      get: (_, name) => (typeof name === "string" ? handleOf(name) : undefined),
    });
  }

  answered(message: AnswerMessage): void {
    const call = this.#calls.get(message.callId);
    if (call === undefined) return;
    call.answers.push(message);
    call.wake?.();
  }

  planned({ askId, plan, error }: PlanMessage): void {
    const asked = this.#asked.get(askId);
    this.#asked.delete(askId);
    if (plan === undefined) asked?.reject(failure(error));
    else asked?.resolve(plan);
  }

  #handle(name: string, caller: Caller): Api.ModelHandle {
    return {
      infer: async (inputs, options = {}) => {
        for await (const outputs of this.#run(name, inputs, options, caller, false)) return outputs;
        throw new Error(`model '${name}' ended a call without an answer`);
      },
      stream: (inputs, options = {}) => this.#run(name, inputs, options, caller, true),
    };
  }

  async *#run(
    modelName: string,
    inputs: Readonly<Record<string, Api.TensorValue>>,
    options: Api.CallOptions,
    { key, signal }: Caller,
    isStream: boolean,
  ): AsyncGenerator<Outputs> {
    const signals = [signal, options.signal].filter((each) => each !== undefined);
    const plan = await this.#plan(modelName);
    for (const each of signals) each.throwIfAborted();
    const callId = this.#nextId++;
    const call: Call = { answers: [], wake: undefined };
    this.#calls.set(callId, call);
    const cancel = (): void => this.#link.post({ type: "cancelCall", callId });
    for (const each of signals) each.addEventListener("abort", cancel, { once: true });
    let isOver = false;
    try {
      const packer = new TensorPacker();
      const packed = packInputs(plan, inputs, packer);
      const buffer = packer.finish();
      const message = { callId, key, isStream, modelName, ...callFields(options), inputs: packed, buffer };
      this.#link.post({ type: "call", ...message }, [buffer]);
      for (let count = 1; !isOver; count += 1) {
        const answer = await nextAnswer(call);
        isOver = answer.final;
        if (answer.error !== undefined) throw failure(answer.error);
        if (count % TAKEN_STEP === 0) this.#link.post({ type: "taken", callId, count: TAKEN_STEP });
        if (!answer.isEmpty) yield inputsByName(answer.outputs, answer.buffer);
      }
    } catch (error) {
      this.#plans.delete(modelName);
      throw error;
    } finally {
      this.#calls.delete(callId);
      for (const each of signals) each.removeEventListener("abort", cancel);
      if (!isOver) cancel();
    }
  }

  #plan(modelName: string): Promise<CallPlan> {
    const known = this.#plans.get(modelName);
    if (known !== undefined) return known;
    const askId = this.#nextId++;
    const asked = new Promise<CallPlan>((resolve, reject) => this.#asked.set(askId, { resolve, reject }));
    this.#plans.set(modelName, asked);
    asked.catch(() => this.#plans.delete(modelName));
    this.#link.post({ type: "ask", askId, modelName });
    return asked;
  }
}

async function nextAnswer(call: Call): Promise<AnswerMessage> {
  for (;;) {
    const answer = call.answers.shift();
    if (answer !== undefined) return answer;
    await new Promise<void>((resolve) => {
      call.wake = resolve;
    });
  }
}

function packInputs(
  { maxBatchSize, inputs: plans }: CallPlan,
  inputs: Readonly<Record<string, Api.TensorValue>>,
  packer: TensorPacker,
): PackedTensor[] {
  const byName = new Map(plans.map((plan) => [plan.name, plan]));
  const rows = maxBatchSize > 0 ? -1 : undefined;
  return Object.entries(inputs).map(([name, value]) =>
    packer.add(tensorOf("input", name, value, byName.get(name), rows)),
  );
}

function callFields({ outputs = [], parameters = {}, version = "", id = "", sequence, ...rest }: Api.CallOptions) {
  const { id: sequenceId = 0n, start = false, end = false } = sequence ?? {};
  return {
    ...{ outputs, id, version: String(version), parameters: new Map(Object.entries(parameters)) },
    sequence: { id: typeof sequenceId === "number" ? BigInt(sequenceId) : sequenceId, start, end },
    timeoutUs: rest.timeoutUs ?? 0,
    priority: rest.priority ?? 0,
  };
}

/** An error with the stack of the call and the code of the other model's failure. */
function failure(error: PackedError | undefined): Error {
  const { code, message } = errorOf(error ?? { code: "internal", message: "a call ended without a reason", stack: "" });
  return Object.assign(new Error(message), { code });
}
