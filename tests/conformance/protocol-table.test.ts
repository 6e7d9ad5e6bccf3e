/** docs/protocol-support.md has every row that was promised, each with proof that exists. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PAGE = readFileSync(`${ROOT}docs/protocol-support.md`, "utf8");
const TABLE = PAGE.slice(PAGE.indexOf("## Row by row"), PAGE.indexOf("### Where it differs"));
/** How many rows each letter has, and the first. */
const ROWS: readonly (readonly [letter: string, first: number, last: number])[] = [
  ["H", 1, 44],
  ["G", 1, 21],
  ["M", 1, 14],
  ["T", 1, 3],
  ["L", 1, 4],
  ["C", 1, 3],
  ["O", 3, 6],
  ["B", 3, 3],
  ["B", 9, 11],
  ["B", 14, 16],
];
const MIN_PROOFS = 1;

interface TableRow {
  readonly id: string;
  readonly state: string;
  readonly proofs: readonly string[];
}

function rows(): TableRow[] {
  return [...TABLE.matchAll(/^\| ([A-Z]\d\d) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$/gm)].map(
    ([, id = "", state = "", proof = ""]) => ({
      id,
      state,
      proofs: [...proof.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name),
    }),
  );
}

/** Groups of the recorded answers. */
function groups(): ReadonlySet<string> {
  const files = ["probes", "grpc-probes", "cli-probes"].map((name) => `${ROOT}tests/golden/${name}.jsonl`);
  const lines = files.flatMap((file) => readFileSync(file, "utf8").split("\n").filter(Boolean));
  return new Set(lines.map((line) => (JSON.parse(line) as { group: string }).group));
}

test("the table of protocols has each row once", () => {
  const expected = ROWS.flatMap(([letter, first, last]) =>
    Array.from({ length: last - first + 1 }, (_, i) => `${letter}${String(first + i).padStart(2, "0")}`),
  );
  assert.deepEqual(
    rows().map(({ id }) => id),
    expected,
  );
});

test("each row of the table of protocols names tests that exist", () => {
  const known = groups();
  for (const { id, proofs } of rows()) {
    assert.ok(proofs.length >= MIN_PROOFS, `${id} names no test`);
    for (const proof of proofs) {
      const isThere = proof.startsWith("golden:") ? known.has(proof.slice(7)) : existsSync(`${ROOT}${proof}`);
      assert.ok(isThere, `${id} names ${proof}, which does not exist`);
    }
  }
});
