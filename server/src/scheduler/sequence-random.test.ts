import assert from "node:assert/strict";
import { test } from "node:test";
import { collect, int32Values } from "../../../tests/fakes/requests.ts";
import { fakeSequenceConfig, OLDEST, type SequenceSetUp, setUpSequences } from "../../../tests/fakes/sequences.ts";
import type { BackendRequest, Batch, ModelInstance } from "../backend/backend.ts";
import { ServerError } from "../core/server-error.ts";
import type { ScheduledRequest } from "./scheduled-request.ts";

const STEPS = 400;
const IDS = 12;
const SEEDS = 40;

/** mulberry32: a number from 0 to below `limit`. */
function randomOf(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

/** Where each request ran. The serial number of a request is its X. */
interface Run {
  readonly serial: number;
  readonly place: string;
}

class WatchedInstance implements ModelInstance {
  readonly name: string;
  readonly runs: Run[];
  readonly overlaps: string[] = [];
  readonly #running: Set<bigint | string>;
  readonly #isDirect: boolean;
  #open: (() => void) | undefined;

  constructor(name: string, runs: Run[], running: Set<bigint | string>, isDirect: boolean) {
    this.name = name;
    this.runs = runs;
    this.#running = running;
    this.#isDirect = isDirect;
  }

  execute(batch: Batch): Promise<void> {
    const real = [...batch.requests.entries()].filter(([, { request }]) => request.sequence.id !== 0n);
    for (const [row, { request }] of real) {
      const { id } = request.sequence;
      if (this.#running.has(id)) this.overlaps.push(`${id} in ${this.name}`);
      this.#running.add(id);
      const place = this.#isDirect ? `${this.name}/${row}` : this.name;
      this.runs.push({ serial: int32Values(request.inputs[0])[0] ?? -1, place });
    }
    return new Promise((resolve) => {
      this.#open = () => {
        for (const [, { request }] of real) this.#running.delete(request.sequence.id);
        for (const request of batch.requests) answer(request);
        resolve();
      };
    });
  }

  open(): void {
    const open = this.#open;
    this.#open = undefined;
    open?.();
  }

  isReady(): boolean {
    return true;
  }

  async close(): Promise<void> {
    await Promise.resolve();
  }
}

/** Every seventh request fails. */
function answer(request: BackendRequest): void {
  const serial = int32Values(request.request.inputs[0])[0] ?? 0;
  if (serial % 7 === 3) request.fail(new ServerError("internal", "broken"));
  else request.respond({ outputs: request.request.inputs.slice(0, 1).map((x) => ({ ...x, name: "Y" })), final: true });
}

class Client {
  readonly sent: {
    readonly serial: number;
    readonly id: bigint;
    readonly sequence: number;
    request: ScheduledRequest;
  }[] = [];
  readonly ends: Promise<string>[] = [];
  readonly aborts: AbortController[] = [];
  readonly refusals: string[] = [];
  readonly #setUp: SequenceSetUp;
  /** The serial number of the START of each id's sequence. */
  readonly #sequences = new Map<bigint, number>();
  #serial = 0;

  constructor(setUp: SequenceSetUp) {
    this.#setUp = setUp;
  }

  send(id: bigint, start: boolean, end: boolean): void {
    this.#serial += 1;
    const serial = this.#serial;
    const abort = new AbortController();
    try {
      const request = this.#setUp.send(id, serial, { start, end, signal: abort.signal });
      if (start) this.#sequences.set(id, serial);
      this.sent.push({ serial, id, sequence: this.#sequences.get(id) ?? -1, request });
      this.aborts.push(abort);
      this.ends.push(
        collect(request.stream).then(
          (all) => `${all.length} response`,
          (e: Error) => e.message,
        ),
      );
    } catch (error) {
      this.refusals.push(ServerError.from(error).message);
    }
  }
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

async function play(client: Client, instances: readonly WatchedInstance[], seed: number): Promise<void> {
  const random = randomOf(seed);
  for (let step = 0; step < STEPS; step += 1) {
    const action = random(10);
    if (action < 6) client.send(BigInt(1 + random(IDS)), random(4) === 0, random(6) === 0);
    else if (action < 9) instances[random(instances.length)]?.open();
    else client.aborts.at(-1 - random(8))?.abort();
    if (random(3) === 0) await turn();
  }
  for (let id = 1; id <= IDS; id += 1) client.send(BigInt(id), false, true);
  for (let i = 0; i < 10 * STEPS && client.sent.some(({ request }) => !request.ended); i += 1) {
    for (const instance of instances) instance.open();
    await turn();
  }
}

/** Sequences that ran at two places, or at a place that another one had taken in between. */
function misplaced(client: Client, runs: readonly Run[]): number[] {
  const sequenceOf = new Map(client.sent.map(({ serial, sequence }) => [serial, sequence]));
  const placeOf = new Map<number, string>();
  const ownerOf = new Map<string, number>();
  const gone = new Set<string>();
  return runs.flatMap(({ serial, place }) => {
    const sequence = sequenceOf.get(serial) ?? -1;
    const owner = ownerOf.get(place);
    if (owner !== undefined && owner !== sequence) gone.add(`${place} ${owner}`);
    ownerOf.set(place, sequence);
    const known = placeOf.get(sequence) ?? place;
    placeOf.set(sequence, place);
    return known !== place || (place.includes("/") && gone.has(`${place} ${sequence}`)) ? [serial] : [];
  });
}

for (const [name, batching] of [
  ["direct", {}],
  ["oldest", { oldest: { ...OLDEST, max_candidate_sequences: 3, preferred_batch_size: [2] } }],
] as const) {
  test(`SequenceScheduler (${name}) loses nothing and keeps order and places in random traffic`, async () => {
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      const runs: Run[] = [];
      const running = new Set<bigint | string>();
      const instances = ["a", "b"].map((lane) => new WatchedInstance(lane, runs, running, name === "direct"));
      const config = fakeSequenceConfig(batching, { max_batch_size: 3 });
      const setUp = setUpSequences(config, instances);
      const client = new Client(setUp);
      await play(client, instances, seed);
      const at = `seed ${seed}`;
      assert.deepEqual(
        client.sent.filter(({ request }) => !request.ended).map(({ serial }) => serial),
        [],
        at,
      );
      const ends = await Promise.all(client.ends);
      assert.equal(ends.filter((end) => end === "1 response" || end === "broken").length, runs.length, at);
      assert.equal(ends.filter((end) => end.endsWith("was cancelled")).length, ends.length - runs.length, at);
      assert.deepEqual(
        instances.flatMap(({ overlaps }) => overlaps),
        [],
        at,
      );
      const idOf = new Map(client.sent.map(({ serial, id }) => [serial, id]));
      for (let id = 1n; id <= IDS; id += 1n) {
        const serials = runs.map(({ serial }) => serial).filter((serial) => idOf.get(serial) === id);
        assert.deepEqual(
          serials,
          [...serials].sort((a, b) => a - b),
          `${at}, id ${id}`,
        );
      }
      assert.deepEqual(misplaced(client, runs), [], at);
      assert.equal(setUp.scheduler.inFlight, 0, at);
      assert.ok(
        client.refusals.every((text) => text.includes("must specify the START flag")),
        at,
      );
    }
  });
}
