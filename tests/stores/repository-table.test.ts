/** docs/protocol-support.md has every row about the repository, each with tests that exist. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PAGE = readFileSync(`${ROOT}docs/protocol-support.md`, "utf8");
const SECTION = PAGE.slice(PAGE.indexOf("## Repository"), PAGE.indexOf("## Scheduling"));
const ROWS = [...SECTION.matchAll(/^\| (R\d\d) \| [^|]+ \| [^|]+ \| ([^|]+) \|$/gm)];

test("the table of the repository has each row once", () => {
  const expected = Array.from({ length: 24 }, (_, i) => `R${String(i + 1).padStart(2, "0")}`);
  assert.deepEqual(
    ROWS.map(([, id]) => id),
    expected,
  );
});

for (const [, id = "", proofs = ""] of ROWS) {
  test(`${id} names tests that exist`, () => {
    const names = [...proofs.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
    assert.ok(names.length > 0);
    for (const name of names.filter((each) => !each.startsWith("golden:"))) assert.ok(existsSync(ROOT + name), name);
  });
}
