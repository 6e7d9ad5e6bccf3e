import assert from "node:assert/strict";
import { test } from "node:test";
import { checksOf, inOrder, outcomeOf, releaseRow } from "./checks.ts";

const RELEASE = { python: "python3", source: "/r", tokenizer: "/t", http: "h:1", grpc: "h:2", hasBls: false };

test("checksOf() uses the flags that a release's scripts have", () => {
  const lines = (help: string): readonly string[] =>
    checksOf(RELEASE).flatMap(({ variants }) => variants(help).map((argv) => argv.join(" ")));
  const old = lines("--tokenizer_dir D --tokenizer_type T --max_input_len N");
  assert.equal(old.length, 5);
  assert.match(old[1] ?? "", /-u h:2 .* --tokenizer_dir \/t --tokenizer_type auto$/);
  assert.match(old[3] ?? "", /-u h:1 .* --max_input_len 500$/);
  const late = lines("--tokenizer-dir D --request-id R");
  assert.match(late[2] ?? "", / --tokenizer-dir \/t --stop-after-ms 200 --request-id 1$/);
});

test("outcomeOf() takes a script at its words, and not at its exit status alone", () => {
  assert.equal(outcomeOf({ code: 0, output: "Got completed request\n" }), "yes");
  assert.equal(
    outcomeOf({ code: 0, output: "a\nReceived an error from server:\nx\n" }),
    "Received an error from server:",
  );
  assert.equal(outcomeOf({ code: 1, output: "usage: x\nnot | known\n" }), "not / known");
});

test("releases are in the order of their numbers, with an empty cell for a script that they lack", () => {
  assert.deepEqual(inOrder(["v0.10.0", "v0.9.0", "v0.18.2", "v0.18.10"]), ["v0.9.0", "v0.10.0", "v0.18.2", "v0.18.10"]);
  assert.equal(releaseRow("v0.5.0", new Map([["client", "yes"]])), "| v0.5.0 |  |  |  | yes |  |  |  |\n");
});
