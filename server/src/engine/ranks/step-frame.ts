/** A step as words that cross to another thread or machine, and back. Pure; it knows no way of crossing. */
import type { StepInput, StepSequence, TokenChoice } from "../step-runner.ts";

export interface FramedStep {
  readonly input: StepInput;
  /** Undefined: the step is run for logits. */
  readonly choices: readonly (TokenChoice | undefined)[] | undefined;
}

const HEADER = [
  "tokens",
  "sequences",
  "rows",
  "copies",
  "embeddings",
  "values",
  "tables",
  "carried",
  "axes",
  "choices",
] as const;
type Count = (typeof HEADER)[number];
/** Words per sequence: start, length, context, adapter, number of table entries. */
const SEQUENCE_WORDS = 5;
const NO_ADAPTER = -1;
const NUM_AXES = 3;
const CHOICE_BYTES = 80;
const NO_CHOICES = -1;
/** In place of the number of banned tokens: the row is seen. */
const NOT_CHOSEN = -1;

/** `blockSize`: entries of tables behind the context stay here. */
export function frameStep(
  input: StepInput,
  choices: readonly (TokenChoice | undefined)[] | undefined,
  blockSize: number,
): Int32Array {
  const { tokenIds, positions, slots, sequences, logitRows, blockCopies, embeddings, carried, axes } = input;
  const tables = sequences.map((sequence) => neededBlocks(sequence, blockSize));
  const counts: Readonly<Record<Count, number>> = {
    tokens: tokenIds.length,
    sequences: sequences.length,
    rows: logitRows.length,
    copies: blockCopies?.length ?? 0,
    embeddings: embeddings?.rows.length ?? 0,
    values: embeddings?.values.length ?? 0,
    tables: tables.reduce((sum, { length }) => sum + length, 0),
    carried: carried === undefined ? 0 : 1,
    axes: axes === undefined ? 0 : NUM_AXES,
    choices: choices?.length ?? NO_CHOICES,
  };
  const words = new Int32Array(wordsOf(counts));
  HEADER.forEach((name, i) => {
    words[i] = counts[name];
  });
  let at = HEADER.length;
  const put = (values: Int32Array): void => {
    words.set(values, at);
    at += values.length;
  };
  for (const values of [tokenIds, positions, slots, logitRows]) put(values);
  if (carried !== undefined) put(carried);
  if (axes !== undefined) put(axes);
  if (blockCopies !== undefined) put(blockCopies);
  for (const [i, { queryStart, queryLength, contextLength, adapter = NO_ADAPTER }] of sequences.entries()) {
    put(Int32Array.of(queryStart, queryLength, contextLength, adapter, tables[i]?.length ?? 0));
  }
  for (const table of tables) put(table);
  if (embeddings !== undefined) {
    put(embeddings.rows);
    put(new Int32Array(embeddings.values.buffer, embeddings.values.byteOffset, embeddings.values.length));
  }
  writeChoices(choices ?? [], words, at);
  return words;
}

/** Views of `words`. @throws Error when they are not as many as they say */
export function unframeStep(words: Int32Array): FramedStep {
  const counts = Object.fromEntries(HEADER.map((name, i) => [name, words[i] ?? 0])) as Record<Count, number>;
  const expected = wordsOf(counts);
  if (words.length !== expected) throw new Error(`a step of ${expected} words, got ${words.length}`);
  let at = HEADER.length;
  const take = (count: number): Int32Array => {
    at += count;
    return words.subarray(at - count, at);
  };
  const [tokenIds, positions, slots] = [take(counts.tokens), take(counts.tokens), take(counts.tokens)];
  const logitRows = take(counts.rows);
  const carried = counts.carried === 0 ? undefined : take(counts.tokens);
  const axes = counts.axes === 0 ? undefined : take(counts.axes * counts.tokens);
  const blockCopies = counts.copies === 0 ? undefined : take(counts.copies);
  const shapes = take(SEQUENCE_WORDS * counts.sequences);
  const sequences = Array.from({ length: counts.sequences }, (_, i): StepSequence => {
    const [queryStart = 0, queryLength = 0, contextLength = 0, id = 0, length = 0] = shapes.subarray(
      SEQUENCE_WORDS * i,
    );
    const adapter = id === NO_ADAPTER ? {} : { adapter: id };
    return { queryStart, queryLength, contextLength, blockTable: take(length), ...adapter };
  });
  const rows = take(counts.embeddings);
  const values = take(counts.values);
  const embeddings = { rows, values: new Float32Array(values.buffer, values.byteOffset, values.length) };
  const input: StepInput = {
    tokenIds,
    positions,
    slots,
    sequences,
    logitRows,
    ...(carried === undefined ? {} : { carried }),
    ...(axes === undefined ? {} : { axes }),
    ...(blockCopies === undefined ? {} : { blockCopies }),
    ...(counts.embeddings === 0 ? {} : { embeddings }),
  };
  return { input, choices: counts.choices === NO_CHOICES ? undefined : readChoices(words, at, counts.choices) };
}

function wordsOf(counts: Readonly<Record<Count, number>>): number {
  const { tokens, sequences, rows, copies, embeddings, values, tables, carried, axes, choices } = counts;
  const perToken = tokens * (3 + carried + axes);
  const perSequence = SEQUENCE_WORDS * sequences + tables;
  return (
    HEADER.length +
    perToken +
    perSequence +
    rows +
    copies +
    embeddings +
    values +
    (CHOICE_BYTES / 4) * Math.max(0, choices)
  );
}

function neededBlocks({ blockTable, contextLength }: StepSequence, blockSize: number): Int32Array {
  return blockTable.subarray(0, Math.ceil(contextLength / blockSize));
}

/** To the bit: all ranks must come to the same token. */
function writeChoices(choices: readonly (TokenChoice | undefined)[], words: Int32Array, at: number): void {
  const view = new DataView(words.buffer, words.byteOffset + 4 * at);
  for (const [i, choice] of choices.entries()) {
    const base = CHOICE_BYTES * i;
    if (choice === undefined) {
      view.setInt32(base + 40, NOT_CHOSEN, true);
      continue;
    }
    const { temperature, topK, topP, minP, seedLow, seedHigh, index, banned } = choice;
    view.setFloat64(base, temperature, true);
    view.setFloat64(base + 8, topP, true);
    view.setFloat64(base + 16, minP, true);
    view.setInt32(base + 24, topK, true);
    view.setInt32(base + 28, seedLow, true);
    view.setInt32(base + 32, seedHigh, true);
    view.setInt32(base + 36, index, true);
    view.setInt32(base + 40, banned.length, true);
    for (const [j, id] of banned.entries()) view.setInt32(base + 44 + 4 * j, id, true);
  }
}

function readChoices(words: Int32Array, at: number, count: number): readonly (TokenChoice | undefined)[] {
  const view = new DataView(words.buffer, words.byteOffset + 4 * at);
  return Array.from({ length: count }, (_, i): TokenChoice | undefined => {
    const base = CHOICE_BYTES * i;
    const numBanned = view.getInt32(base + 40, true);
    if (numBanned === NOT_CHOSEN) return undefined;
    return {
      temperature: view.getFloat64(base, true),
      topP: view.getFloat64(base + 8, true),
      minP: view.getFloat64(base + 16, true),
      topK: view.getInt32(base + 24, true),
      seedLow: view.getUint32(base + 28, true),
      seedHigh: view.getUint32(base + 32, true),
      index: view.getInt32(base + 36, true),
      banned: Array.from({ length: numBanned }, (_, j) => view.getInt32(base + 44 + 4 * j, true)),
      numTop: 0, // the leader alone tells of them
    };
  });
}
