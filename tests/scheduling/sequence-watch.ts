/**
 * Watches a sequence batcher: one request of a sequence at a time, in order, at one place, with the flags and the state that are
 * its own; places that nobody else has meanwhile, and no request refused that belongs to a living sequence.
 */
import type { BackendRequest, Batch } from "../../server/src/backend/backend.ts";
import { isCancelled } from "../../server/src/core/infer-request.ts";
import type { ServerError } from "../../server/src/core/server-error.ts";
import type { ScheduledRequest } from "../../server/src/scheduler/scheduled-request.ts";
import { rowText } from "../fakes/sequences.ts";
import { isDecoupled, type ModelSpec } from "./model-spec.ts";
import { isNullRequest, type PlayedInstance, valuesOf } from "./played-instance.ts";
import type { Ask } from "./scenario.ts";
import type { VirtualClock } from "./virtual-clock.ts";
import { type Faults, NEAR_MS, type Watch } from "./watch.ts";

const US_PER_MS = 1000;

/** The requests under one START, in the client's records. */
interface Run {
  readonly startSerial: number;
  /** It was told to end, or may have been given up. */
  isOver: boolean;
  lastAskMs: number;
  place: string | undefined;
}

interface Asked {
  readonly ask: Ask;
  readonly request: ScheduledRequest;
  readonly run: Run;
  isRunning: boolean;
  rounds: number;
}

export interface SequenceWatchParts {
  readonly name: string;
  readonly spec: ModelSpec;
  readonly clock: VirtualClock;
  readonly faults: Faults;
  readonly instances: () => readonly PlayedInstance[];
  /** Requests may fail while they run. */
  readonly canFail: boolean;
}

export class SequenceWatch implements Watch {
  readonly #parts: SequenceWatchParts;
  readonly #asked = new Map<string, Asked>();
  readonly #runs = new Map<number, Run>();
  /** States that the next request of an id may find: the last one's output or, if that could fail, its input. */
  readonly #states = new Map<number, readonly number[]>();
  /** Ids whose last request was an END. */
  readonly #ended = new Set<number>();
  /** Ids whose sequence may be given up while it has no slot, and a START behind it too: they wait in one queue. */
  readonly #timed = new Set<number>();
  readonly #running = new Map<PlayedInstance, readonly Asked[]>();
  readonly #lastSerial = new Map<number, number>();
  /** Which run a row of an instance belongs to, and which ones had to leave it. */
  readonly #owners = new Map<string, Run>();
  readonly #gone = new Map<string, Set<Run>>();

  constructor(parts: SequenceWatchParts) {
    this.#parts = parts;
  }

  arriving(request: ScheduledRequest, ask: Ask | undefined): void {
    if (ask === undefined) throw new Error("no ensemble calls a sequence here");
    const nowMs = this.#parts.clock.nowMs();
    const known = this.#runs.get(ask.id);
    const isNew = ask.start || known === undefined || this.#isIterative;
    const run = isNew ? { startSerial: ask.serial, isOver: false, lastAskMs: nowMs, place: undefined } : known;
    this.#asked.set(String(ask.serial), { ask, request, run, isRunning: false, rounds: 0 });
  }

  /** After it was taken. */
  taken(ask: Ask): void {
    const one = this.#asked.get(String(ask.serial));
    if (one === undefined || this.#isIterative) return;
    const known = this.#runs.get(ask.id);
    if (!ask.start && (known === undefined || this.#ended.has(ask.id)))
      this.#fault(`${ask.serial} was taken without a START`);
    one.run.lastAskMs = this.#parts.clock.nowMs();
    this.#runs.set(ask.id, one.run);
    this.#ended.delete(ask.id);
    if (ask.end) this.#ended.add(ask.id);
    if (ask.timeoutUs > 0) this.#timed.add(ask.id);
    if (ask.end || this.#timed.has(ask.id)) one.run.isOver = true;
    if (ask.end) this.#timed.delete(ask.id);
  }

  refused(request: ScheduledRequest, error: ServerError): void {
    const { id } = request.request;
    const one = this.#asked.get(id);
    this.#asked.delete(id);
    if (one === undefined || !error.message.includes("must specify the START flag")) return;
    const { ask, run } = one;
    if (ask.start || this.#isIterative) this.#fault(`${id} was refused though it is a START`);
    const idleMs = this.#parts.spec.config.sequence_batching?.max_sequence_idle_microseconds ?? 0;
    const isFresh = this.#parts.clock.nowMs() - run.lastAskMs < idleMs / US_PER_MS - NEAR_MS;
    if (this.#runs.get(ask.id) === run && !run.isOver && isFresh) this.#fault(`${id} was refused in a living sequence`);
  }

  /** Events that may have ended a sequence before its time: a cancelled request, a wait that was too long. */
  disturbed(ask: Ask): void {
    for (const run of [this.#asked.get(String(ask.serial))?.run, this.#runs.get(ask.id)]) {
      if (run !== undefined) run.isOver = true;
    }
  }

  started(instance: PlayedInstance, batch: Batch): void {
    const { config } = this.#parts.spec;
    if (instance.isBusy) this.#fault("an instance got two batches at once");
    if (!this.#parts.instances().includes(instance)) this.#fault("an instance ran that had been taken out");
    if (batch.requests.length > Math.max(1, config.max_batch_size)) this.#fault(`a batch of ${batch.requests.length}`);
    if (batch.requests.every(isNullRequest)) this.#fault("a batch without a request");
    const asked: Asked[] = [];
    const isDirect = config.sequence_batching?.oldest === undefined;
    for (const [row, one] of batch.requests.entries()) {
      if (isNullRequest(one)) continue;
      const known = this.#asked.get(one.request.id);
      if (known === undefined) this.#fault(`request ${one.request.id} ran that was not taken`);
      else {
        asked.push(known);
        this.#judgeRow(known, one);
        this.#judgePlace(known.run, isDirect ? `${instance.name}/${row}` : instance.name, isDirect);
      }
    }
    this.#judgeTogether(asked);
    this.#running.set(instance, asked);
  }

  settled(): void {
    for (const [instance, asked] of this.#running) {
      if (instance.isBusy) continue;
      this.#running.delete(instance);
      for (const one of asked) one.isRunning = false;
    }
  }

  #judgeRow(known: Asked, one: BackendRequest): void {
    const { ask, request } = known;
    const { serial, id } = ask;
    if (request.ended) this.#fault(`${serial} ran after its end`);
    if (isCancelled(request.request)) this.#fault(`${serial} ran though it had been cancelled`);
    if (known.isRunning && !this.#isIterative) this.#fault(`${serial} ran twice`);
    this.settled();
    known.isRunning = true;
    if (!this.#isIterative) {
      if (serial < (this.#lastSerial.get(id) ?? -1)) this.#fault(`${serial} ran after a later request of its sequence`);
      this.#lastSerial.set(id, serial);
    }
    const isStart = this.#isIterative ? known.rounds === 0 : ask.start;
    const isEnd = !this.#isIterative && ask.end;
    const expected = `${ask.id}:${isStart ? "S" : ""}${isEnd ? "E" : ""}${ask.value}`;
    if (rowText(one.request) !== expected) this.#fault(`expected row ${expected}, got ${rowText(one.request)}`);
    known.rounds += 1;
    this.#judgeState(ask, one, isStart);
  }

  #judgeState(ask: Ask, one: BackendRequest, isStart: boolean): void {
    const [state] = valuesOf(one, "STATE_IN");
    if (state === undefined || this.#isIterative) return;
    const expected = isStart ? [0] : this.#states.get(ask.id);
    if (expected?.includes(state) === false) this.#fault(`${ask.serial} found state ${state}, not ${expected}`);
    const after = state + ask.value + 1;
    // A stream leaves the state of its last response, if it has any.
    if (isDecoupled(this.#parts.spec)) this.#states.delete(ask.id);
    else this.#states.set(ask.id, this.#parts.canFail ? [state, after] : [after]);
  }

  #judgePlace(run: Run, place: string, isDirect: boolean): void {
    if (this.#isIterative) return;
    if (run.place !== undefined && run.place !== place) this.#fault(`run ${run.startSerial} moved to ${place}`);
    run.place = place;
    if (!isDirect) return;
    const owner = this.#owners.get(place);
    const gone = this.#gone.get(place) ?? new Set();
    if (owner !== undefined && owner !== run) gone.add(owner);
    if (gone.has(run)) this.#fault(`run ${run.startSerial} came back to ${place}, which another one had taken`);
    this.#gone.set(place, gone);
    this.#owners.set(place, run);
  }

  #judgeTogether(asked: readonly Asked[]): void {
    const ids = [...this.#running.values(), asked].flat().filter(({ isRunning }) => isRunning);
    const busy = ids.map(({ ask }) => ask.id);
    if (new Set(busy).size < busy.length) this.#fault("two requests of one id ran at the same time");
    const { config } = this.#parts.spec;
    const isRagged = config.input[0]?.allow_ragged_batch === true;
    if (!isRagged && new Set(asked.map(({ ask }) => ask.width)).size > 1) this.#fault("different shapes in one batch");
  }

  get #isIterative(): boolean {
    return this.#parts.spec.config.sequence_batching?.iterative_sequence === true;
  }

  #fault(text: string): void {
    this.#parts.faults.add(`${this.#parts.name} at ${this.#parts.clock.nowMs()} ms: ${text}`);
  }
}
