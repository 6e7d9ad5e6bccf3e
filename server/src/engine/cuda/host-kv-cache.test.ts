import assert from "node:assert/strict";
import { test } from "node:test";
import { createRandom, type Random } from "../../../../tests/support/random.ts";
import { BLOCK_STAGES, HostKvCache, type HostKvCopies, type HostKvStream } from "./host-kv-cache.ts";

/** Two streams whose work is done in any order that their events allow. */
class TwoStreams implements HostKvCopies {
  readonly device: number[];
  readonly host: number[];
  readonly #stages: number[] = Array.from({ length: BLOCK_STAGES }, () => -1);
  readonly #queues: Readonly<Record<HostKvStream, { isReady: () => boolean; run: () => void }[]>> = {
    steps: [],
    copies: [],
  };
  readonly #events: { isPassed: boolean }[] = [];
  maxWaiting = 0;

  constructor(numBlocks: number, numHostBlocks: number) {
    this.device = Array.from({ length: numBlocks }, (_, i) => i);
    this.host = Array.from({ length: numHostBlocks }, (_, i) => 1000 + i);
  }

  move(from: number, to: number): void {
    this.#enqueue("steps", () => copyTo(this.device, to, this.device, from));
  }
  gather(block: number, stage: number): void {
    this.#enqueue("steps", () => copyTo(this.#stages, stage, this.device, block));
  }
  scatter(stage: number, block: number): void {
    this.#enqueue("steps", () => copyTo(this.device, block, this.#stages, stage));
  }
  store(stage: number, hostBlock: number): void {
    this.#enqueue("copies", () => copyTo(this.host, hostBlock, this.#stages, stage));
  }
  fetch(hostBlock: number, stage: number): void {
    this.#enqueue("copies", () => copyTo(this.#stages, stage, this.host, hostBlock));
  }
  record(stage: number, stream: HostKvStream): void {
    const event = { isPassed: false };
    this.#events[stage] = event;
    this.#enqueue(stream, () => {
      event.isPassed = true;
    });
  }
  await(stage: number, stream: HostKvStream): void {
    const event = this.#events[stage];
    this.#queues[stream].push({ isReady: () => event?.isPassed ?? true, run: () => undefined });
  }

  /** A step's write, once the stream reaches it. */
  write(block: number, value: number): void {
    this.#enqueue("steps", () => {
      this.device[block] = value;
    });
  }

  drain(random: Pick<Random, "next">): void {
    const { steps, copies } = this.#queues;
    while (steps.length + copies.length > 0) {
      const able = [steps, copies].filter(([first]) => first?.isReady() === true);
      assert.notEqual(able.length, 0, "the streams wait for each other");
      this.maxWaiting = Math.max(this.maxWaiting, copies.length);
      able[Math.floor(random.next() * able.length)]?.shift()?.run();
    }
  }

  #enqueue(stream: HostKvStream, run: () => void): void {
    this.#queues[stream].push({ isReady: () => true, run });
  }
}

function copyTo(to: number[], at: number, from: readonly number[], index: number): void {
  to[at] = from[index] ?? -1;
}

test("copy() leaves in device and host what copies one after the other leave, in any order that the streams allow", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = createRandom(seed);
    const [numBlocks, numHostBlocks] = [2 + random.below(12), 1 + random.below(12)];
    const streams = new TwoStreams(numBlocks, numHostBlocks);
    const tiers = new HostKvCache(streams, numBlocks);
    const expected = [...streams.device, ...streams.host];
    for (let step = 0; step < 6; step++) {
      const pairs = Int32Array.from({ length: 2 * random.below(20) }, () => random.below(numBlocks + numHostBlocks));
      tiers.copy(pairs);
      for (let i = 0; i < pairs.length; i += 2) expected[pairs[i + 1] ?? 0] = expected[pairs[i] ?? 0] ?? -1;
      const block = random.below(numBlocks);
      streams.write(block, 5000 + step);
      expected[block] = 5000 + step;
      if (random.below(3) === 0) streams.drain(random);
    }
    streams.drain(random);
    assert.deepEqual([...streams.device, ...streams.host], expected, `seed ${seed}`);
  }
});

test("copy() lets the steps go on while blocks cross to the host, as many as there are stages", () => {
  const streams = new TwoStreams(16, 16);
  const tiers = new HostKvCache(streams, 16);
  tiers.copy(Int32Array.from({ length: 2 * BLOCK_STAGES }, (_, i) => (i % 2 === 0 ? i / 2 : 16 + (i - 1) / 2)));
  // Steps first wherever they may: nothing has been stored when they are through.
  streams.drain({ next: () => 0 });
  assert.equal(streams.maxWaiting, 3 * BLOCK_STAGES);
  assert.deepEqual(streams.host.slice(0, BLOCK_STAGES), streams.device.slice(0, BLOCK_STAGES));
});
