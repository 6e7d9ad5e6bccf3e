/** Sends the requests of one thread: a closed loop of clients, or an open loop by a schedule. Collects what the threads report. */
import { arrivalsOf } from "../plan/arrivals.ts";
import { createLanes, type Lane, type Lanes } from "./lanes.ts";
import {
  EXCHANGE_FIELDS,
  type KeptAnswer,
  type LoadCommand,
  type LoadReport,
  machineMs,
  type ThreadPlan,
} from "./load-messages.ts";
import { createRequestSource, type RequestSource } from "./request-source.ts";

const FIRST_CAPACITY = 4096;
/** Connections of a thread in an open loop, at most: a server that does not answer costs no more. */
const MAX_LANES = 2048;
/** A timer is late by up to so much, so arrivals within it are sent together. */
const TIMER_MS = 1;
/** A client whose request failed waits so long: a server that is gone is not asked in a loop. */
const FAILURE_PAUSE_MS = 100;

interface Client {
  readonly index: number;
  readonly lane: Lane;
}

export class LoadDriver {
  readonly #plan: ThreadPlan;
  readonly #lanes: Lanes;
  readonly #source: RequestSource;
  readonly #clients: Client[] = [];
  /** Clients with nothing under way. */
  readonly #free: Client[] = [];
  #exchanges = new Float64Array(FIRST_CAPACITY * EXCHANGE_FIELDS);
  #numExchanges = 0;
  #answers: KeptAnswer[] = [];
  #failure: string | undefined;
  /** Clients of the closed loop. */
  #wanted = 0;
  #stopSchedule: (() => void) | undefined;
  #hasMore = false;
  #maxLateMs = 0;
  #numDropped = 0;
  #numSent = 0;
  #utilization = performance.eventLoopUtilization();

  constructor(plan: ThreadPlan) {
    this.#plan = plan;
    this.#lanes = createLanes(plan);
    this.#source = createRequestSource(plan);
  }

  obey(command: LoadCommand): void {
    this.#stopSchedule?.();
    this.#stopSchedule = undefined;
    this.#hasMore = false;
    this.#wanted = command.kind === "concurrency" ? command.clients : 0;
    if (command.kind === "concurrency") this.#fill();
    else if (command.kind === "schedule") this.#follow(command);
    else if (command.kind === "stop") this.#lanes.close();
  }

  /** Exchanges and figures since the last call. */
  report(): LoadReport {
    const now = performance.eventLoopUtilization();
    const report: LoadReport = {
      exchanges: this.#exchanges.slice(0, this.#numExchanges * EXCHANGE_FIELDS),
      answers: this.#answers,
      failure: this.#failure,
      busyShare: performance.eventLoopUtilization(now, this.#utilization).utilization,
      maxLateMs: this.#maxLateMs,
      numDropped: this.#numDropped,
      numSent: this.#numSent,
      isIdle: !this.#hasMore && this.#free.length === this.#clients.length,
    };
    this.#utilization = now;
    this.#numExchanges = 0;
    this.#answers = [];
    this.#failure = undefined;
    this.#maxLateMs = 0;
    this.#numDropped = 0;
    this.#numSent = 0;
    return report;
  }

  #fill(): void {
    while (this.#clients.length - this.#free.length < this.#wanted) {
      if (!this.#start(this.#free.pop() ?? this.#addClient())) return;
    }
  }

  #addClient(): Client {
    const client = { index: this.#clients.length, lane: this.#lanes.open() };
    this.#clients.push(client);
    return client;
  }

  /** @returns false when there is no request left */
  #start(client: Client, number?: number): boolean {
    const request = this.#source.next(client.index, number);
    if (request === undefined) {
      this.#free.push(client);
      return false;
    }
    this.#numSent += 1;
    const startMs = machineMs();
    if (this.#plan.keepsParts) this.#startKept(client, request.number, request.bytes, startMs);
    else client.lane.send(request.bytes, { end: (failure) => this.#ended(client, startMs, failure) });
    return true;
  }

  #startKept(client: Client, request: number, bytes: Uint8Array, startMs: number): void {
    const partsMs: number[] = [];
    const parts: string[] = [];
    client.lane.send(bytes, {
      part(part) {
        partsMs.push(machineMs());
        parts.push(part.toString("latin1")); // a character may be cut in two: bytes are put together later
      },
      end: (failure) => {
        const endMs = machineMs();
        const answer = { request, startMs, endMs, partsMs: Float64Array.from(partsMs), parts, failure };
        this.#answers.push(answer);
        this.#ended(client, startMs, failure);
      },
    });
  }

  #ended(client: Client, startMs: number, failure: string | undefined): void {
    this.#note(startMs, machineMs(), failure === undefined ? 0 : 1);
    if (failure !== undefined) {
      this.#failure ??= failure;
      setTimeout(() => this.#next(client), FAILURE_PAUSE_MS);
      return;
    }
    this.#next(client);
  }

  #next(client: Client): void {
    const numBusy = this.#clients.length - this.#free.length;
    if (numBusy > this.#wanted) this.#free.push(client);
    else this.#start(client);
  }

  #note(startMs: number, endMs: number, failed: number): void {
    const at = this.#numExchanges * EXCHANGE_FIELDS;
    if (at === this.#exchanges.length) {
      const larger = new Float64Array(this.#exchanges.length * 2);
      larger.set(this.#exchanges);
      this.#exchanges = larger;
    }
    this.#exchanges[at] = startMs;
    this.#exchanges[at + 1] = endMs;
    this.#exchanges[at + 2] = failed;
    this.#numExchanges += 1;
  }

  #follow({ schedule, startMs }: Extract<LoadCommand, { readonly kind: "schedule" }>): void {
    const { index, count } = this.#plan;
    const arrivals = arrivalsOf(schedule, index, count);
    let next = arrivals.next();
    let timer: NodeJS.Timeout | undefined;
    this.#hasMore = true;
    const sendDue = (): void => {
      for (; next.done !== true; next = arrivals.next()) {
        const lateMs = machineMs() - (startMs + next.value.atMs);
        if (lateMs < 0) break;
        this.#maxLateMs = Math.max(this.#maxLateMs, lateMs);
        this.#arrive(next.value.number);
      }
      this.#hasMore = next.done !== true;
      if (next.done !== true)
        timer = setTimeout(sendDue, Math.max(0, startMs + next.value.atMs - machineMs() - TIMER_MS / 2));
    };
    this.#stopSchedule = () => clearTimeout(timer);
    sendDue();
  }

  #arrive(number: number): void {
    const client = this.#free.pop() ?? (this.#clients.length < MAX_LANES ? this.#addClient() : undefined);
    if (client === undefined) this.#numDropped += 1;
    else this.#start(client, number);
  }
}
