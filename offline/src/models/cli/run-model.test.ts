/** `nereid run NAME` as a process of its own: in a pseudo-terminal, with piped input, and against a running server. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { cliCommand, runCli } from "@nereid/server/cli/cli.test-support";
import { TerminalProgram } from "../chat/terminal.test-support.ts";
import { isForEngine } from "./run.ts";

const TINY = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model", import.meta.url));
const PROMPT = ">>> ";

let root = "";
let env: Record<string, string>;
before(() => {
  root = mkdtempSync(join(tmpdir(), "nereid-run-"));
  env = { XDG_CACHE_HOME: root, HF_HUB_OFFLINE: "1" };
});
after(() => rmSync(root, { recursive: true, force: true }));

test("nereid run NAME chats in a terminal", { timeout: 600_000 }, async () => {
  const chat = new TerminalProgram(cliCommand(["run", TINY, "--temperature", "0", "--max_tokens", "8"]), env);
  const say = async (keys: string, next = PROMPT): Promise<string> => {
    chat.type(keys);
    return chat.until(next);
  };
  try {
    assert.match(await chat.until(PROMPT), /^Found {3}folder [\s\S]*Ask, or type \/help/m);
    const first = await say("Once upon a time\r");
    assert.match(first, /^Once upon a time\n.*\w.*\nThe answer was cut/);
    await say('"""\r', "... ");
    await say("two\r", "... ");
    assert.match(await say('lines"""\r'), /\w/);
    assert.match(await say("/show\r"), /messages +4\n/);
    await say("/clear\r");
    assert.match(await say("/show\r"), /messages +0\n/);
    assert.equal(await say("Once upon a time\r"), first);
    assert.match(await say("/set verbose\r"), /The speed is shown/);
    assert.match(await say("more\r"), /tokens in, 8 out, [\d.]+ tokens\/s/);
    await say("/set max_tokens 1500\r");
    await say("/clear\r");
    chat.type("Tell me a long story\r");
    await chat.until("story\n");
    await chat.until(" ");
    assert.match(await say("\x03"), /Stopped\.\n/);
    assert.match(await say("half\x03"), /Control-D or \/bye ends the chat/);
    chat.type("\x04");
    assert.equal(await chat.end(), 0);
  } finally {
    chat.kill();
  }
  const [newest = "", ...older] = readFileSync(join(root, "nereid/models/chat-history"), "utf8").split("\n");
  assert.deepEqual([newest, older.includes("Once upon a time")], ["Tell me a long story", true]);
});

async function piped(argv: readonly string[], input: string) {
  const child = spawn(process.execPath, cliCommand(["run", ...argv]), {
    env: { ...process.env, ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdin.end(input);
  const [code] = await once(child, "close");
  return { code, stdout, stderr };
}

test("nereid run NAME answers piped input once, with nothing else on standard output", async () => {
  const flags = ["--temperature=0", "--max_tokens=6"];
  const [pipe, prompt] = await Promise.all([
    piped([TINY, ...flags, "--verbose"], "Once upon a time\n"),
    piped([TINY, "Once", "upon", "a", "time", ...flags, "--json"], ""),
  ]);
  assert.equal(pipe.code, 0, pipe.stderr);
  assert.match(pipe.stdout, /^.*\w.*\n$/);
  assert.match(pipe.stderr, /^9 tokens in, 6 out, .* tokens\/s, first token after .* s in all\n$/);
  const answer: unknown = JSON.parse(prompt.stdout);
  assert.equal(String(Reflect.get(Object(answer), "text")).trimStart(), pipe.stdout.slice(0, -1));
  assert.equal(Reflect.get(Object(answer), "finish_reason"), "length");
});

test("nereid run NAME ends quietly when its reader has enough", async () => {
  const child = spawn(process.execPath, cliCommand(["run", TINY, "Tell a long story", "--max_tokens=400"]), {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdout.once("data", () => child.stdout.destroy());
  const [code] = await once(child, "close");
  assert.deepEqual([code, stderr], [0, ""]);
});

/** A server of another kind, which notes what it is asked. */
async function startOther(asked: unknown[]): Promise<Server> {
  const server = createServer(async (request, response) => {
    if (request.method === "GET") {
      response.end(JSON.stringify({ data: [{ id: "org/far" }] }));
      return;
    }
    let text = "";
    for await (const chunk of request) text += String(chunk);
    asked.push({ authorization: request.headers.authorization, ...JSON.parse(text) });
    const chunk = { choices: [{ delta: { content: "far" }, finish_reason: "stop" }] };
    response.end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return server;
}

test("nereid run asks a running server, with system message, settings and key", async () => {
  const asked: unknown[] = [];
  const server = await startOther(asked);
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const flags = ["--system", "Be brief.", "--top_k", "3", "--stop", "x", "--api-key", "secret"];
    const run = await piped(["org/far", "Hello", "--server", `${url}/`, ...flags], "");
    assert.deepEqual([run.code, run.stdout, run.stderr], [0, "far\n", ""]);
    const messages = [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hello" },
    ];
    assert.deepEqual(asked, [
      {
        authorization: "Bearer secret",
        model: "org/far",
        messages,
        top_k: 3,
        stop: ["x"],
        stream: true,
        stream_options: { include_usage: true },
      },
    ]);
    const other = await piped(["org/near", "Hello", "--server", url], "");
    assert.match(other.stderr, /has no model 'org\/near': org\/far\nChoose one with --model/);
  } finally {
    server.close();
  }
});

test("nereid run says what is missing", async () => {
  const [empty, nothing, unknown] = await Promise.all([
    piped([TINY], ""),
    runCli(["run"]),
    piped(["org/none"], "Hello"),
  ]);
  assert.deepEqual([empty.code, nothing.code, unknown.code], [2, 2, 1]);
  assert.match(empty.stderr, /there is no question/);
  assert.match(nothing.stderr, /<name> is missing/);
  assert.match(unknown.stderr, /org\/none at 'main' is not complete in .*hub, and the network may not be used/);
});

test("isForEngine() knows the command line of run.py by its flags", async () => {
  const engine = ["--max_output_len 8", "--temperature 1 --input_text a", "--engine-dir=x --help", "--max_out 1"];
  const chat = ["org/model --max_output_len 8", "--temperature 1 org/model", "--help", "", "--system x m"];
  const parse = (line: string): Promise<boolean> => isForEngine(line.split(" ").filter(Boolean));
  const found = await Promise.all([...engine, ...chat].map(parse));
  assert.deepEqual(found, [...engine.map(() => true), ...chat.map(() => false)]);
});
