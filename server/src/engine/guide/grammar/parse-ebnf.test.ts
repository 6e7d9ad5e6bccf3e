import assert from "node:assert/strict";
import { test } from "node:test";
import { parseEbnf } from "./parse-ebnf.ts";
import type { Syntax } from "./syntax.ts";

const WRITTEN = { isPrinted: false };

function rootOf(text: string, options: Parameters<typeof parseEbnf>[1] = WRITTEN): Syntax | undefined {
  return parseEbnf(text, options).get("root");
}

function text(value: string): Syntax {
  return { kind: "text", bytes: [...Buffer.from(value)] };
}

test("parseEbnf() reads choices, sequences and repetitions", () => {
  assert.deepEqual(rootOf('# head\nroot ::= "a" [b-d]{2,} | (x "" | .y-1?) # tail\n  x ::= "1"\n.y-1 ::= "2" (= x)'), {
    kind: "choice",
    options: [
      {
        kind: "sequence",
        parts: [
          text("a"),
          { kind: "repeat", part: { kind: "class", ranges: [[98, 100]] }, min: 2, max: Number.POSITIVE_INFINITY },
        ],
      },
      {
        kind: "choice",
        options: [
          { kind: "sequence", parts: [{ kind: "name", name: "x" }, text("")] },
          { kind: "repeat", part: { kind: "name", name: ".y-1" }, min: 0, max: 1 },
        ],
      },
    ],
  });
});

test("parseEbnf() reads escapes: printed ones of two digits, written ones of any number", () => {
  assert.deepEqual(rootOf(String.raw`root ::= "\n\"\x41\u00e9\U0001F600\\"`), text('\n"Aé😀\\'));
  assert.deepEqual(rootOf(String.raw`root ::= "\xe9a"`, { isPrinted: true }), text("éa"));
  assert.deepEqual(rootOf(String.raw`root ::= "\xe9a"`), text("\u0e9a"));
  assert.deepEqual(rootOf(String.raw`root ::= [\]\-^a-]`), {
    kind: "class",
    ranges: [
      [45, 45],
      [93, 94],
      [97, 97],
    ],
  });
  assert.deepEqual(rootOf(String.raw`root ::= [^\0-\x1f"a]`), {
    kind: "class",
    ranges: [
      [32, 33],
      [35, 96],
      [98, 0x10ffff],
    ],
  });
});

test("parseEbnf() reads free text with tags, and places of other grammars", () => {
  const dispatch =
    'root ::= TagDispatch(\n ("<f>", x),\n stop_eos=false,\n stop_str=("</f>"),\n loop_after_dispatch=false\n)';
  assert.deepEqual(rootOf(`${dispatch}\nx ::= "1"`, { isPrinted: true }), {
    kind: "dispatch",
    tags: [{ trigger: [...Buffer.from("<f>")], name: "x" }],
    stops: [[...Buffer.from("</f>")]],
    mayEndAnywhere: false,
    loops: false,
  });
  assert.deepEqual(rootOf('root ::= "a@1@b"', { isPrinted: true, place: /@(\d+)@/ }), {
    kind: "sequence",
    parts: [text("a"), { kind: "place", index: 1 }, text("b")],
  });
});

test("parseEbnf() says where a grammar cannot be read", () => {
  const wrong: readonly (readonly [string, RegExp])[] = [
    ['root ::= "a', /line 1, column 12 of the grammar: expected the end of a text/],
    ['root ::= "a"\nx = "b"', /line 2, column 3 of the grammar: expected a name/],
    ['root ::= "a"{3,2}', /expected at least 3 repetitions, got 2/],
    ['root ::= "a"\nroot ::= "b"', /rule root is there twice/],
    ["root ::= [b-a]", /expected a range from low to high/],
    [String.raw`root ::= "\q"`, /expected a known escape/],
    [`root ::= ${"(".repeat(600)}`, /more than 500 brackets/],
  ];
  for (const [grammar, message] of wrong) assert.throws(() => parseEbnf(grammar, WRITTEN), message, grammar);
});
