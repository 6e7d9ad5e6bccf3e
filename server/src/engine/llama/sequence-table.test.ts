import assert from "node:assert/strict";
import { test } from "node:test";
import { type SequenceMemory, SequenceTable } from "./sequence-table.ts";
import { divideStep, type SequenceWork } from "./step-calls.ts";

/** Sequences as libllama holds them: cells with a token, shared by copies. */
class CellMemory implements SequenceMemory {
  readonly canCut: boolean;
  readonly sequences = new Map<number, { readonly token: number }[]>();

  constructor(canCut: boolean) {
    this.canCut = canCut;
  }

  remove(sequence: number, from: number, to: number): boolean {
    const cells = this.of(sequence);
    const end = to < 0 ? cells.length : to;
    if (!this.canCut && from > 0) return false;
    if (from === 0 && end < cells.length) this.sequences.set(sequence, [...new Array(end), ...cells.slice(end)]);
    else this.sequences.set(sequence, cells.slice(0, from));
    return true;
  }

  copy(from: number, to: number, end: number | undefined): void {
    const copied = this.of(from).slice(0, end);
    assert.ok(this.canCut || copied.length === this.of(from).length, "only whole states can be copied");
    this.sequences.set(to, [...copied, ...this.of(to).slice(copied.length)]);
  }

  of(sequence: number): { readonly token: number }[] {
    return this.sequences.get(sequence) ?? [];
  }

  tokens(sequence: number): number[] {
    return this.of(sequence).map((cell) => cell?.token);
  }

  get numCells(): number {
    return new Set([...this.sequences.values()].flat()).size;
  }
}

function tableOf(canCut: boolean, numSequences = 4): { table: SequenceTable; memory: CellMemory } {
  const memory = new CellMemory(canCut);
  return { memory, table: new SequenceTable({ memory, numSequences, canCut }) };
}

const ids = (...tokens: number[]): Int32Array => Int32Array.from(tokens);
const range = (count: number, first = 0): number[] => Array.from({ length: count }, (_, i) => first + i);

/** Places a sequence and computes what is missing, as the runner does. */
function compute(
  { table, memory }: ReturnType<typeof tableOf>,
  before: readonly number[],
  added: readonly number[],
  adapter?: number,
): { id: number; numKnown: number } {
  const placed = table.place(Int32Array.from(before), adapter);
  assert.deepEqual(memory.tokens(placed.id), before.slice(0, placed.numKnown), "its memory holds what it is said to");
  const computed = [...before, ...added].slice(placed.numKnown);
  memory.sequences.set(placed.id, [...memory.of(placed.id), ...computed.map((token) => ({ token }))]);
  table.append(placed.id, Int32Array.from(computed));
  return placed;
}

test("place() continues the memory of a sequence, and copies a beginning that another still needs", () => {
  const setup = tableOf(true);
  setup.table.begin();
  const first = compute(setup, [], range(60));
  setup.table.begin();
  assert.deepEqual(compute(setup, range(60), [60]), { id: first.id, numKnown: 60 });
  setup.table.begin();
  const other = compute(setup, range(32), [99]);
  assert.deepEqual([other.numKnown, other.id === first.id], [32, false]);
  assert.equal(setup.memory.numCells, 62, "copies share cells");
  setup.table.begin();
  assert.equal(compute(setup, range(61), [61]).id, first.id, "the first one was left whole");
});

test("place() cuts what a sequence took back, as rejected drafts are", () => {
  const setup = tableOf(true);
  setup.table.begin();
  const { id } = compute(setup, [], [...range(10), 77, 78]);
  setup.table.begin();
  assert.deepEqual(compute(setup, range(10), [10]), { id, numKnown: 10 });
  assert.deepEqual(setup.memory.tokens(id), range(11));
});

test("place() takes states that cannot be cut whole or not at all", () => {
  const setup = tableOf(false);
  setup.table.begin();
  const { id } = compute(setup, [], range(10));
  setup.table.begin();
  assert.equal(compute(setup, range(6), [50]).numKnown, 0, "a part of a state is none");
  setup.table.begin();
  const parent = compute(setup, range(10), [10]);
  const child = compute(setup, range(10), [11]);
  assert.equal(parent.id, id);
  assert.deepEqual([child.numKnown, child.id === id], [0, false], "the parent has gone on by now");
});

test("place() gives two sequences of equal beginnings in one step memories of their own", () => {
  const setup = tableOf(true);
  setup.table.begin();
  compute(setup, [], range(8));
  setup.table.begin();
  const placed = [0, 1, 2].map(() => setup.table.place(Int32Array.from(range(8)), undefined));
  assert.equal(new Set(placed.map(({ id }) => id)).size, 3);
  assert.deepEqual(
    placed.map(({ numKnown }) => numKnown),
    [8, 8, 8],
  );
});

test("place() finds no memory that was computed with another adapter", () => {
  const setup = tableOf(true);
  setup.table.begin();
  compute(setup, [], range(8), 1);
  setup.table.begin();
  assert.equal(setup.table.place(ids(...range(8)), 2).numKnown, 0);
  assert.equal(setup.table.place(ids(...range(8)), 1).numKnown, 8);
  setup.table.begin();
  setup.table.forgetAdapter(1);
  assert.equal(setup.table.place(ids(...range(8)), 1).numKnown, 0);
});

test("dropIdle() gives up the memory used longest ago, never one of the step", () => {
  const setup = tableOf(true);
  for (const first of [100, 200, 300]) {
    setup.table.begin();
    compute(setup, [], range(5, first));
  }
  setup.table.begin();
  compute(setup, range(5, 100), [1]);
  assert.ok(setup.table.dropIdle());
  assert.ok(setup.table.dropIdle());
  assert.equal(setup.table.dropIdle(), false);
  setup.table.begin();
  assert.equal(setup.table.place(ids(...range(5, 200)), undefined).numKnown, 0);
  assert.equal(setup.table.place(ids(...range(5, 100), 1), undefined).numKnown, 6);
});

test("share() lets sequences that computed the same beginning share its cells", () => {
  const setup = tableOf(true);
  setup.table.begin();
  const first = compute(setup, [], [...range(6), 50]);
  const memoryOfSecond = setup.table.place(ids(), undefined);
  const tokens = [...range(6), 60];
  setup.memory.sequences.set(
    memoryOfSecond.id,
    tokens.map((token) => ({ token })),
  );
  setup.table.append(memoryOfSecond.id, Int32Array.from(tokens));
  assert.equal(setup.memory.numCells, 14);
  setup.table.share();
  assert.equal(setup.memory.numCells, 8);
  assert.deepEqual(setup.memory.tokens(memoryOfSecond.id), tokens);
  assert.deepEqual(setup.memory.tokens(first.id), [...range(6), 50]);
});

test("a thousand steps by chance never find a memory with other tokens", () => {
  let state = 7;
  const random = (below: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >> 8) % below;
  };
  for (const canCut of [true, false]) {
    const setup = tableOf(canCut, 6);
    let running = range(4).map(() => [random(2)]);
    for (let step = 0; step < 1000; step++) {
      setup.table.begin();
      running = running.map((tokens) => {
        const before = random(9) === 0 ? tokens.slice(0, random(tokens.length)) : tokens.slice(0, -1);
        const added = range(1 + random(3)).map(() => random(2));
        compute(setup, before, added); // asserts that the memory holds what the table says
        const next = [...before, ...added, random(2)];
        return next.length > 30 ? next.slice(0, 1 + random(5)) : next;
      });
      if (random(20) === 0) setup.table.dropIdle();
    }
  }
});

function work(id: number, length: number, wanted: readonly number[], adapter?: number): SequenceWork {
  const rows = Int32Array.from({ length }, (_, i) => wanted.indexOf(i));
  return { id, adapter, first: 0, tokens: Int32Array.from(range(length)), rows };
}

test("divideStep() bounds tokens and rows of a call, keeps the order, and one adapter to a call", () => {
  const works = [work(0, 5, [4]), work(1, 3, [0, 1, 2]), work(2, 2, [1], 9), work(3, 4, [3])];
  const shape = (limits: { maxTokens: number; maxRows: number }): unknown =>
    divideStep(works, limits).map(({ adapter, pieces }) => [
      adapter,
      pieces.map(({ work: { id }, start, end }) => [id, start, end]),
    ]);
  assert.deepEqual(shape({ maxTokens: 100, maxRows: 100 }), [
    [
      undefined,
      [
        [0, 0, 5],
        [1, 0, 3],
        [3, 0, 4],
      ],
    ],
    [9, [[2, 0, 2]]],
  ]);
  assert.deepEqual(shape({ maxTokens: 4, maxRows: 2 }), [
    [undefined, [[0, 0, 4]]],
    [
      undefined,
      [
        [0, 4, 5],
        [1, 0, 1],
      ],
    ],
    [
      undefined,
      [
        [1, 1, 3],
        [3, 0, 2],
      ],
    ],
    [undefined, [[3, 2, 4]]],
    [9, [[2, 0, 2]]],
  ]);
});
