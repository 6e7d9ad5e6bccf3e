import assert from "node:assert/strict";
import { test } from "node:test";
import { parseServerFlags } from "./parse-server-flags.ts";

function usage(argv: readonly string[]): string {
  const parsed = parseServerFlags(argv, {});
  assert.equal(parsed.kind, "usage");
  return (parsed as { text: string }).text;
}

const LAST_LINES: readonly (readonly [argv: readonly string[], end: string])[] = [
  [["-x"], "\ntritonserver: invalid option -- 'x'\n"],
  [
    ["--model-repositry=/m"],
    "\ntritonserver: unrecognized option '--model-repositry=/m'\nDid you mean --model-repository?\n",
  ],
  [["/m"], "\nUnexpected argument: /m\nValues follow a flag: --model-repository=<folder> names a model repository.\n"],
  [
    ["--log-format=fancy"],
    '\nBad option: "--log-format".\ninvalid argument for --log-format\n  --log-format <string>\n\tStyle of a line: "default" (LMMDD hh:mm:ss.ssssss),\n\t"ISO8601" (YYYY-MM-DDThh:mm:ssZ L) or "json" (one object a\n\tline).\n',
  ],
];

for (const [argv, end] of LAST_LINES) {
  test(`parseServerFlags() ends with what is wrong and what to write, for ${argv.join(" ")}`, () => {
    const text = usage(argv);
    assert.equal(text.slice(-end.length), end);
  });
}
