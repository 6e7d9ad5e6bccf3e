import assert from "node:assert/strict";
import { test } from "node:test";
import { type NamedFlag, scanArguments } from "./getopt.ts";

const FLAGS: readonly NamedFlag[] = [
  { name: "http-port", value: "<integer>" },
  { name: "http-address", value: "<string>" },
  { name: "id", value: "<string>" },
  { name: "identity", value: "<string>" },
  { name: "help", value: undefined },
];

function scan(...argv: string[]): unknown[] {
  const { items, positionals } = scanArguments(argv, FLAGS);
  return [
    ...items.map((item) => (item.kind === "flag" ? [item.flag.name, item.flag.value] : item.message)),
    ...positionals,
  ];
}

for (const [argv, expected] of [
  [["--http-port=1"], [["http-port", "1"]]],
  [["--http-port", "1"], [["http-port", "1"]]],
  [["--http-port="], [["http-port", ""]]],
  [["--id=a=b"], [["id", "a=b"]]],
  [["--id", "--help"], [["id", "--help"]]],
  [["--http-p=1"], [["http-port", "1"]]],
  [["--id=x"], [["id", "x"]]],
  [["--help"], [["help", ""]]],
  [["--http=1"], ["option '--http' is ambiguous; possibilities: '--http-port' '--http-address'"]],
  [["--nope=1"], ["unrecognized option '--nope=1'"]],
  [["--help=1"], ["option '--help' doesn't allow an argument"]],
  [["--id"], ["option '--id' requires an argument"]],
  [["-x"], ["invalid option -- 'x'"]],
  [
    ["a", "--id", "b", "c"],
    [["id", "b"], "a", "c"],
  ],
  [["--", "--id"], ["--id"]],
  [["-"], ["-"]],
] as const) {
  test(`scanArguments() understands ${argv.join(" ")}`, () => {
    assert.deepEqual(scan(...argv), expected);
  });
}
