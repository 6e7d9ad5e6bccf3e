import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { loadTokenizer } from "../../formats/tokenizer/tokenizer-files.ts";
import type { GrammarSource } from "./grammar-source.ts";
import type { MaskSession } from "./mask-session.ts";
import { MaskThreads } from "./mask-threads.ts";
import { isAllowed } from "./matcher/token-mask.ts";

const MODEL = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model", import.meta.url));
const END = 2;
const EBNF = 'root ::= "a" [b-c]{2} "d"';
const SOURCE: GrammarSource = {
  ebnf: EBNF,
  isPrinted: false,
  isSchema: false,
  root: "root",
  schemas: [],
  placeMark: "@",
};
const GUIDE = { grammar: { kind: "ebnf", text: EBNF }, source: SOURCE, endIds: [END] } as const;

async function idsOf(letters: string): Promise<number[]> {
  const tokenizer = await loadTokenizer(MODEL);
  return [...letters].map((letter) => tokenizer.encode(letter, { addSpecialTokens: false })[0] ?? 0);
}

/** Single letters that may come next, and `.` for the end. */
async function nextOf(session: MaskSession): Promise<string> {
  await session.pending;
  const ids = await idsOf("abcd");
  const letters = [..."abcd"].filter((_, i) => isAllowed(session.mask, ids[i] ?? 0));
  return letters.join("") + (isAllowed(session.mask, END) ? "." : "");
}

test("sessions go on in a new thread when theirs dies, with the tokens that they had", async () => {
  const threads = new MaskThreads({ tokenizerDir: MODEL, vocabSize: 6144 });
  const [a = 0, b = 0, , d = 0] = await idsOf("abcd");
  const first = await threads.open(GUIDE);
  const second = await threads.open(GUIDE);
  first.accept(a);
  assert.deepEqual([await nextOf(first), await nextOf(second)], ["bc", "a"]);
  first.thread.end(new Error("it died"));
  first.accept(b);
  assert.deepEqual([await nextOf(first), await nextOf(second)], ["bc", "a"]);
  for (const id of [b, d]) first.accept(id);
  assert.equal(await nextOf(first), ".");
  first.rollback(2);
  assert.equal(await nextOf(first), "bc");
  assert.deepEqual([first.failure, second.failure], [undefined, undefined]);
  threads.close(new Error("the end"));
  second.accept(a);
  await second.pending;
  assert.match(String(second.failure), /the end/);
});

test("sessions move to threads that become ready later, and go on with the tokens that they had", async () => {
  const threads = new MaskThreads({ tokenizerDir: MODEL, vocabSize: 6144, maxThreads: 3 });
  const [a = 0, b = 0, , d = 0] = await idsOf("abcd");
  // The first thread takes all of them, for no other is ready.
  const sessions = await Promise.all(Array.from({ length: 24 }, () => threads.open(GUIDE)));
  const sizes = (): number[] => {
    const byThread = new Map<unknown, number>();
    for (const { thread } of sessions) byThread.set(thread, (byThread.get(thread) ?? 0) + 1);
    return [...byThread.values()].sort();
  };
  for (const session of sessions) session.accept(a);
  while (sizes().join() !== "8,8,8") {
    for (const session of sessions) {
      assert.equal(await nextOf(session), "bc");
      session.accept(b);
      assert.equal(await nextOf(session), "bc");
      session.rollback(1);
    }
  }
  for (const session of sessions) {
    for (const id of [b, b, d]) session.accept(id);
    assert.equal(await nextOf(session), ".");
    assert.equal(session.failure, undefined);
  }
  threads.close(new Error("the end"));
});

test("a token that does not fit ends its session, and no other", async () => {
  const threads = new MaskThreads({ tokenizerDir: MODEL, vocabSize: 6144 });
  const [a = 0, b = 0] = await idsOf("ab");
  const first = await threads.open(GUIDE);
  const second = await threads.open(GUIDE);
  first.accept(b);
  second.accept(a);
  assert.equal(await nextOf(second), "bc");
  await first.pending;
  assert.match(first.failure?.message ?? "", /token \d+ does not fit the guide/);
  assert.equal(second.failure, undefined);
  threads.close(new Error("the end"));
});
