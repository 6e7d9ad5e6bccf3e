/** A client: makes the request, takes the responses, and judges whether they are as promised. */
import type { InferRequest } from "../../server/src/core/infer-request.ts";
import type { InferResponse } from "../../server/src/core/infer-response.ts";
import { ServerError } from "../../server/src/core/server-error.ts";
import type { ScheduledRequest } from "../../server/src/scheduler/scheduled-request.ts";
import { fakeRequest, int32, int32Values } from "../fakes/requests.ts";
import { fateOf } from "./fate.ts";
import { LiveEnsemble } from "./live-ensemble.ts";
import type { LiveModel } from "./live-model.ts";
import { isDecoupled } from "./model-spec.ts";
import { answerOf } from "./played-instance.ts";
import type { Ask, Scenario } from "./scenario.ts";
import type { VirtualClock } from "./virtual-clock.ts";
import { type Faults, NEAR_MS } from "./watch.ts";
import type { Figures } from "./world.ts";

export interface ClientParts {
  readonly ask: Ask;
  readonly target: LiveModel | LiveEnsemble;
  readonly scenario: Scenario;
  readonly clock: VirtualClock;
  readonly faults: Faults;
  readonly figures: Figures;
}

export interface Client {
  readonly ask: Ask;
  readonly request: InferRequest;
  refused(error: ServerError): void;
  /** Before it is handed over: sees what is put into the stream, in the order in which it is. */
  attach(scheduled: ScheduledRequest): void;
  listen(scheduled: ScheduledRequest): void;
  abort(): void;
  /** Everything is over: the answer must be there. */
  expectEnd(): void;
}

export function createClient(parts: ClientParts): Client {
  return new OneClient(parts);
}

const NEVER: AbortSignal = new AbortController().signal;

class OneClient implements Client {
  readonly ask: Ask;
  readonly request: InferRequest;
  readonly #parts: ClientParts;
  /** Made when somebody asks for the signal, as front ends do. */
  #abort: AbortController | undefined;
  readonly #responses: InferResponse[] = [];
  readonly #askedMs: number;
  #abortedMs = Number.POSITIVE_INFINITY;
  #isFinal = false;
  #hasEnded = false;

  constructor(parts: ClientParts) {
    const { ask, clock } = parts;
    this.ask = ask;
    this.#parts = parts;
    this.#askedMs = clock.nowMs();
    const request = fakeRequest(inputsOf(parts), {
      id: String(ask.serial),
      outputs: ask.wantsOne ? parts.target.signature.outputNames.slice(0, 1) : [],
      priority: ask.priority,
      timeoutUs: ask.timeoutUs,
      sequence: { id: isSequence(parts) ? BigInt(ask.id) : 0n, start: ask.start, end: ask.end },
      signal: NEVER,
      arrivalMs: this.#askedMs,
    });
    Object.defineProperty(request, "signal", { get: () => this.#signal() });
    Object.defineProperty(request, "isCancelled", { get: () => this.#abortedMs < Number.POSITIVE_INFINITY });
    this.request = request;
  }

  refused(error: ServerError): void {
    const known = ["Exceeds maximum queue size", "must specify the START flag", "has stopped accepting"];
    if (!known.some((text) => error.message.includes(text))) this.#fault(`refused: ${error.message}`);
  }

  attach({ stream }: ScheduledRequest): void {
    const push = stream.push.bind(stream);
    const fail = stream.fail.bind(stream);
    stream.push = (response) => {
      this.#put(response.final);
      push(response);
    };
    stream.fail = (error) => {
      this.#put(true);
      fail(error);
    };
  }

  listen({ stream }: ScheduledRequest): void {
    const take = async (): Promise<void> => {
      try {
        for (;;) {
          const next = await stream.next();
          if (next.done === true) break;
          if (next.value.error !== undefined) throw next.value.error;
          this.#responses.push(next.value);
        }
        this.#answered();
      } catch (error) {
        this.#failed(ServerError.from(error));
      }
      this.#hasEnded = true;
    };
    void take();
  }

  abort(): void {
    this.#abortedMs = Math.min(this.#abortedMs, this.#parts.clock.nowMs());
    this.#abort?.abort();
  }

  #signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#abortedMs < Number.POSITIVE_INFINITY) this.#abort.abort();
    }
    return this.#abort.signal;
  }

  expectEnd(): void {
    if (!this.#hasEnded) this.#fault("was never answered");
  }

  #put(isFinal: boolean): void {
    const { target } = this.#parts;
    if (this.#isFinal) this.#fault("was answered after its end");
    this.#isFinal = isFinal;
    if (!(target instanceof LiveEnsemble)) target.responded(this.request);
  }

  #answered(): void {
    const { figures, clock } = this.#parts;
    figures.answered += 1;
    figures.longestWaitMs = Math.max(figures.longestWaitMs, clock.nowMs() - this.#askedMs);
    if (this.#responses.filter(({ final }) => final).length !== 1) this.#fault("has not one final response");
    const expected = JSON.stringify(this.#expected());
    const got = JSON.stringify(this.#values());
    if (got !== expected) this.#fault(`expected ${expected}, got ${got}`);
  }

  #failed(error: ServerError): void {
    const { target, figures } = this.#parts;
    const { message, code } = error;
    if (!this.#isPrefix()) this.#fault("got other responses than it should before it failed");
    if (code === "cancelled") {
      figures.cancelled += 1;
      if (this.#abortedMs === Number.POSITIVE_INFINITY && !this.#canBeDragged()) this.#fault("was cancelled by nobody");
    } else if (code === "unavailable") this.#judgeUnavailable(message);
    else {
      figures.failed += 1;
      if (this.#parts.scenario.fates.trouble === 0) this.#fault(`failed: ${message}`);
    }
    if (target instanceof LiveEnsemble && !target.isBroken(this.request.id))
      this.#fault(`failed on its own: ${message}`);
  }

  #judgeUnavailable(message: string): void {
    const { target, figures, clock } = this.#parts;
    figures.timedOut += 1;
    const known = ["Request timeout expired", "timeout of the corresponding sequence has been expired"];
    const isEnsemble = target instanceof LiveEnsemble;
    const ofSteps = [...known, "Exceeds maximum queue size", "has stopped accepting"];
    if (!(isEnsemble ? ofSteps : known).some((text) => message.includes(text))) this.#fault(`failed: ${message}`);
    if (isEnsemble || !message.includes("Request timeout")) return;
    const waitedMs = clock.nowMs() - this.#askedMs;
    const { dynamic_batching: batching } = target.spec.config;
    const policies = [batching?.default_queue_policy, ...Object.values(batching?.priority_queue_policy ?? {})];
    const timeouts = policies.map((policy) => policy?.default_timeout_microseconds ?? 0).filter((us) => us > 0);
    const leastMs =
      Math.min(...timeouts, this.ask.timeoutUs > 0 ? this.ask.timeoutUs : Number.POSITIVE_INFINITY) / 1000;
    if (waitedMs < leastMs - NEAR_MS) this.#fault(`timed out after ${waitedMs} ms`);
  }

  /** A client that gives up a request of a sequence gives up those that wait behind it. */
  #canBeDragged(): boolean {
    return isSequence(this.#parts);
  }

  #isPrefix(): boolean {
    const expected = this.#expected();
    return this.#values().every((values, i) => JSON.stringify(values) === JSON.stringify(expected[i]));
  }

  #values(): unknown[] {
    return this.#responses
      .filter(({ outputs }) => outputs.length > 0)
      .map(({ outputs }) =>
        [...outputs].sort((a, b) => (a.name < b.name ? -1 : 1)).map((output) => [output.name, int32Values(output)]),
      );
  }

  #expected(): unknown[] {
    const { target, ask, scenario } = this.#parts;
    const x = new Array<number>(ask.rows * ask.width).fill(ask.value);
    if (target instanceof LiveEnsemble) {
      const all = target.expected(ask.serial, x, this.request.outputs);
      return all.map((values) => [...values].sort(([a], [b]) => (a < b ? -1 : 1)));
    }
    const { spec, generation } = target;
    const isBatching = spec.config.max_batch_size > 0;
    const count = isDecoupled(spec) ? fateOf(scenario.fates, ask.target, ask.serial, ask.value).numResponses : 1;
    const load = ["GENERATION", new Array<number>(isBatching ? ask.rows : 1).fill(generation)];
    return Array.from({ length: count }, (_, k) => [
      ...(ask.wantsOne ? [] : [load]),
      ["Y", answerOf(x, ask.hasOptional ? ask.value : 0, k)],
    ]);
  }

  #fault(text: string): void {
    this.#parts.faults.add(`request ${this.ask.serial} at ${this.#parts.clock.nowMs()} ms: ${text}`);
  }
}

function isSequence({ target }: ClientParts): boolean {
  return !(target instanceof LiveEnsemble) && target.spec.config.sequence_batching !== undefined;
}

function inputsOf({ ask, target }: ClientParts) {
  const isBatching = target.signature.maxBatchSize > 0;
  const shape = isBatching ? [ask.rows, ask.width] : [ask.width];
  const values = new Array<number>(ask.rows * ask.width).fill(ask.value);
  const inputs = [int32(target instanceof LiveEnsemble ? "IN" : "X", shape, values)];
  if (ask.hasOptional)
    inputs.push(int32("Z", isBatching ? [ask.rows, 1] : [1], new Array<number>(ask.rows).fill(ask.value)));
  return inputs;
}
