import assert from "node:assert/strict";
import { test } from "node:test";
import { ChatSession } from "./chat-session.ts";
import type { ChatSettings } from "./chat-settings.ts";
import { isCommand, runCommand } from "./slash-commands.ts";

const SETTINGS: ChatSettings = { system: undefined, sampling: {}, isVerbose: false };
const SERVER = { url: "http://127.0.0.1:1", model: "org/tiny", apiKey: undefined };

for (const [message, expected] of [
  ["/set temperature 0.7", { ...SETTINGS, sampling: { temperature: 0.7 } }],
  ["/set parameter num_predict 5", { ...SETTINGS, sampling: { max_tokens: 5 } }],
  ["/set stop two words", { ...SETTINGS, sampling: { stop: ["two words"] } }],
  ["/set system  Be brief.", { ...SETTINGS, system: "Be brief." }],
  ['/set system "Be brief."', { ...SETTINGS, system: "Be brief." }],
  ["/set system one\ntwo", { ...SETTINGS, system: "one\ntwo" }],
  ["/set verbose", { ...SETTINGS, isVerbose: true }],
] as const) {
  test(`runCommand() changes settings by ${JSON.stringify(message)}`, () => {
    const session = new ChatSession(SERVER, SETTINGS);
    assert.equal(runCommand(session, message).ends, false);
    assert.deepEqual(session.settings, expected);
  });
}

for (const message of ["/set temperature", "/set temperature default"]) {
  test(`runCommand() takes a setting back by ${message}`, () => {
    const session = new ChatSession(SERVER, { ...SETTINGS, sampling: { temperature: 1, top_k: 3 } });
    assert.equal(runCommand(session, message).text, "temperature is the model's default.");
    assert.deepEqual(session.settings.sampling, { top_k: 3 });
  });
}

for (const [message, text] of [
  ["/set", /Expected a name and a value/],
  ["/set temperature warm", /temperature is a number, got 'warm'/],
  ["/set temperature 3", /temperature is from 0 to 2, got '3'/],
  ["/set top_k 1.5", /top_k is an integer/],
  ["/set temprature 1", /did you mean 'temperature'\?/],
  ["/set __proto__ 1", /There is no setting '__proto__'/],
  ["/sett", /There is no command \/sett; did you mean \/set\?/],
  ["/hello", /There is no command \/hello/],
] as const) {
  test(`runCommand() refuses ${message}, and changes nothing`, () => {
    const session = new ChatSession(SERVER, SETTINGS);
    assert.match(runCommand(session, message).text, text);
    assert.deepEqual(session.settings, SETTINGS);
  });
}

test("isCommand() leaves paths and fractions to the model", () => {
  assert.deepEqual(["/set x", "/?", "/bye", "/etc/passwd", "/", "1/2", "/ 2"].map(isCommand), [
    true,
    true,
    true,
    false,
    false,
    false,
    false,
  ]);
});

test("runCommand() ends by /bye alone", () => {
  const session = new ChatSession(SERVER, SETTINGS);
  assert.deepEqual(
    ["/bye", "/exit", "/help", "/show", "/clear"].map((message) => runCommand(session, message).ends),
    [true, true, false, false, false],
  );
});
