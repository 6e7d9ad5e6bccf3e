import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { NO_PARAMETERS } from "./infer-request.ts";
import type { InferResponse } from "./infer-response.ts";
import { forEachResponse, ResponseStream } from "./response-stream.ts";
import { ServerError } from "./server-error.ts";

const HIGH_WATER = 64;

function response(id: number, final = false): InferResponse {
  const head = { modelName: "m", modelVersion: "1", parameters: NO_PARAMETERS, outputs: [] };
  return { ...head, id: String(id), final, empty: false };
}

/** A consumer that can be told to fall behind. */
class Reader {
  readonly ids: number[] = [];
  #catchUp: (() => void) | undefined;
  isSlow = false;

  take = (taken: InferResponse): Promise<void> | undefined => {
    this.ids.push(Number(taken.id));
    if (!this.isSlow) return undefined;
    return new Promise((resolve) => {
      this.#catchUp = resolve;
    });
  };

  catchUp(): void {
    this.#catchUp?.();
  }
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}

test("forEachResponse() takes responses in the call of the producer once it waits", async () => {
  const [stream, reader] = [new ResponseStream(), new Reader()];
  stream.push(response(0));
  const done = forEachResponse(stream, reader.take);
  await turn();
  for (const id of [1, 2, 3]) {
    stream.push(response(id));
    assert.equal(reader.ids.at(-1), id);
  }
  stream.push(response(4, true));
  await done;
  assert.deepEqual(reader.ids, numbers(5));
});

test("forEachResponse() keeps the order when the consumer falls behind, and bounds what waits", async () => {
  const [stream, reader] = [new ResponseStream(), new Reader()];
  const done = forEachResponse(stream, reader.take);
  await turn();
  reader.isSlow = true;
  let pushed = 0;
  while (stream.drained() === undefined) stream.push(response(pushed++));
  assert.equal(pushed, HIGH_WATER + 1); // one is taken
  assert.deepEqual(reader.ids, [0]);
  const drained = stream.drained();
  reader.isSlow = false;
  reader.catchUp();
  await drained;
  for (let i = 0; i < 10; i++) stream.push(response(pushed++));
  await turn();
  for (let i = 0; i < 10; i++) stream.push(response(pushed++));
  stream.push(response(pushed++, true));
  await done;
  assert.deepEqual(reader.ids, numbers(pushed));
});

test("forEachResponse() hands over everything before it rejects with the failure", async () => {
  const [stream, reader] = [new ResponseStream(), new Reader()];
  const done = forEachResponse(stream, reader.take);
  await turn();
  reader.isSlow = true;
  for (const id of [0, 1, 2]) stream.push(response(id));
  stream.fail(new ServerError("internal", "broken"));
  reader.isSlow = false;
  reader.catchUp();
  await assert.rejects(done, /broken/);
  assert.deepEqual(reader.ids, [0, 1, 2]);
});

test("forEachResponse() rejects with what the consumer throws, and drops the rest", async () => {
  for (const isSlow of [false, true]) {
    const stream = new ResponseStream();
    const done = forEachResponse(stream, () => {
      if (isSlow) return Promise.reject(new Error("left"));
      throw new Error("left");
    });
    await turn();
    stream.push(response(0));
    await assert.rejects(done, /left/);
    stream.push(response(1));
    assert.equal(stream.ended, true);
    assert.deepEqual(await stream.next(), { done: true, value: undefined });
  }
});
