import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { type Channel, endText, type ProcessEnd, SupervisedProcess } from "./supervised-process.ts";

interface Run {
  readonly child: SupervisedProcess;
  readonly lines: string[];
  readonly messages: unknown[];
  readonly bytes: Buffer[];
  readonly end: Promise<ProcessEnd>;
}

function run(code: string, channels: readonly Channel[] = [], ownsGroup = false, command = process.execPath): Run {
  const lines: string[] = [];
  const messages: unknown[] = [];
  const bytes: Buffer[] = [];
  let ended: (end: ProcessEnd) => void = () => undefined;
  const end = new Promise<ProcessEnd>((resolve) => {
    ended = resolve;
  });
  const child = new SupervisedProcess(
    { command, args: ["-e", code], environment: process.env, channels, ownsGroup },
    {
      output: (line, isError) => lines.push(`${isError ? "err" : "out"} ${line}`),
      message: (message) => messages.push(message),
      data: (chunk) => bytes.push(chunk),
      ended,
    },
  );
  return { child, lines, messages, bytes, end };
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

test("the end comes after all output, with the exit code", async () => {
  const { lines, end, child } = run("console.log('one'); console.error('two'); process.exitCode = 7;");
  assert.equal(endText(await end), "exit code 7");
  assert.deepEqual(lines.sort(), ["err two", "out one"]);
  assert.equal(child.isOver, true);
});

test("a process that kills itself is reported by its signal", async () => {
  const { end } = run("process.kill(process.pid, 'SIGKILL')");
  assert.deepEqual(await end, { signal: "SIGKILL" });
});

test("the cause of kill() replaces the exit status; the first cause counts", async () => {
  const { child, end } = run("setInterval(() => 0, 1000)");
  child.kill("it took too long");
  child.kill("another cause");
  assert.equal(endText(await end), "it took too long");
});

test("a program that does not exist ends with the start error", async () => {
  const { end } = run("", [], false, "/nowhere/program");
  assert.match(endText(await end), /^it could not be started: .*ENOENT/);
});

test("messages and bytes arrive before the end", async () => {
  const messaging = run("process.send({ n: 3n }, () => process.disconnect())", ["ipc"]);
  await messaging.end;
  assert.deepEqual(messaging.messages, [{ n: 3n }]);
  const writing = run("require('fs').writeSync(3, 'x'.repeat(100000))", ["pipe"]);
  await writing.end;
  assert.equal(Buffer.concat(writing.bytes).length, 100_000);
});

test("send() to a process that has ended reports the failure", async () => {
  const { child, end } = run("process.disconnect()", ["ipc"]);
  await end;
  await new Promise<void>((resolve) => child.send({}, resolve));
});

test("a process group ends with its process", async () => {
  const spawnsSleeper = `
    const child = require('child_process').spawn('sleep', ['60'], { stdio: 'inherit' });
    child.once('spawn', () => { console.log(child.pid); process.exit(0); });`;
  const { lines, end } = run(spawnsSleeper, [], true);
  await end;
  const pid = Number(lines[0]?.slice("out ".length));
  while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(isAlive(pid), false);
});

test("a grandchild that keeps the pipes open does not delay the end for ever", async () => {
  const spawnsSleeper = `
    const child = require('child_process').spawn('sleep', ['60'], { stdio: 'inherit', detached: true });
    child.once('spawn', () => { console.log(child.pid); process.exit(0); });`;
  const { lines, end } = run(spawnsSleeper);
  assert.equal(endText(await end), "exit code 0");
  process.kill(Number(lines[0]?.slice("out ".length)));
});

test("endedWithin() kills a process that does not end by itself", async () => {
  const { child, end } = run("setInterval(() => 0, 1000)");
  await child.endedWithin(50);
  assert.deepEqual(await end, { signal: "SIGKILL" });
});
