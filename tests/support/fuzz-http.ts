/** Rounds of requests with broken bodies and headers, for the seeded test and for the long run. Asserts what must always hold. */
import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import type { KeepAliveClient, Outgoing, Reply } from "./hostile-http.ts";
import { mutateJson } from "./mutate-json.ts";
import { SIMPLE_REQUEST } from "./probe-server.ts";
import type { Random } from "./random.ts";

const SIMPLE = "/v2/models/simple/infer";
const BINARY_INPUTS = ["INPUT0", "INPUT1"].map((name) => ({
  name,
  datatype: "INT32",
  shape: [1, 16],
  parameters: { binary_data_size: 64 },
}));
const BINARY = JSON.stringify({
  inputs: BINARY_INPUTS,
  outputs: [{ name: "OUTPUT0", parameters: { classification: 3 } }],
});
const GENERATE = JSON.stringify({ text_input: "hi", max_tokens: 1, bad_words: [""], parameters: { temperature: 0.5 } });
const LOAD = JSON.stringify({ parameters: { config: '{"backend":"identity"}', "file:1/x": "QUFB" } });
const LOGGING = JSON.stringify({ log_verbose_level: 0, log_info: true, log_format: "default" });

/** Path and a good body for it. */
const SEEDS: readonly [path: string, body: string][] = [
  [SIMPLE, SIMPLE_REQUEST],
  [
    SIMPLE,
    SIMPLE_REQUEST.replace("{", '{"id":"x","parameters":{"sequence_id":1,"priority":0,"timeout":5,"custom":1.5},'),
  ],
  ["/v2/models/preprocessing/generate", '{"QUERY":"a b","REQUEST_OUTPUT_LEN":4}'],
  ["/v2/models/ensemble/generate", GENERATE],
  ["/v2/models/ensemble/generate_stream", GENERATE],
  ["/v2/repository/index", '{"ready":true}'],
  ["/v2/repository/models/none/load", LOAD],
  ["/v2/repository/models/none/unload", '{"parameters":{"unload_dependents":true}}'],
  ["/v2/logging", LOGGING],
  ["/v2/systemsharedmemory/region/a/register", '{"key":"/a","offset":0,"byte_size":8}'],
  ["/v2/trace/setting", '{"trace_level":["OFF"]}'],
];
const LENGTHS = [
  "",
  "-1",
  "+5",
  "0",
  "1",
  "99999999999999999999",
  "NaN",
  "0x10",
  "1e3",
  " 7",
  "7,7",
  "18446744073709551616",
];
const ENCODINGS = ["gzip", "deflate", "br", "identity", "gzip, gzip"];
const PATHS = [
  "",
  "/",
  "//",
  "/../x",
  "%2e%2e/",
  "\\",
  "?a=/b",
  "/versions/0",
  "/versions/1e9",
  "/versions/-1",
  "#x",
  "%00",
];
const ODD_HEADERS: Readonly<Record<string, string>>[] = [
  { __proto__x: "1", constructor: "1" },
  JSON.parse('{"__proto__":"x"}') as Record<string, string>,
  { "Accept-Encoding": "gzip;q=NaN, deflate;q=-1, *;q=1e99" },
  { "Content-Type": "application/json; charset=\u00ff" },
  { Authorization: "x".repeat(8000) },
];

/** One hostile request; every mistake is drawn from the same random numbers. */
export function drawRequest(random: Random): Outgoing {
  const kind = random.below(20);
  if (kind < 5) return drawBinary(random);
  const [path, good] = random.pick(SEEDS);
  const body = mutateJson(good, random);
  if (kind === 5) return { path, body, headers: { "Content-Encoding": random.pick(ENCODINGS) } };
  if (kind === 6) return { path, body: gzipSync(body), headers: { "Content-Encoding": "gzip" } };
  if (kind === 7) return { path: path + random.pick(PATHS), body };
  if (kind === 8) return { path, body, headers: random.pick(ODD_HEADERS) };
  if (kind === 9) return { path, method: random.pick(["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]), body };
  return { path, body };
}

/** Binary tensors that are cut, too long or announced wrongly. */
function drawBinary(random: Random): Outgoing {
  const json = random.below(2) === 0 ? Buffer.from(BINARY) : mutateJson(BINARY, random);
  const tail = random.bytes(random.pick([0, 1, 63, 64, 127, 128, 129, 200]));
  const body = Buffer.concat([json, tail]);
  const length = random.below(2) === 0 ? String(json.length) : random.pick([...LENGTHS, String(body.length + 1)]);
  const headers: Record<string, string> = random.below(10) === 0 ? {} : { "Inference-Header-Content-Length": length };
  return { path: SIMPLE, body, headers };
}

/** Sends `count` requests over the client's connections, at most `width` at a time. @throws AssertionError naming the request */
export async function fuzz(client: KeepAliveClient, random: Random, count: number, width: number): Promise<void> {
  let left = count;
  const worker = async (): Promise<void> => {
    while (left-- > 0) {
      const outgoing = drawRequest(random);
      const reply = await client.send(outgoing).catch((error: unknown) => assert.fail(`${show(outgoing)}: ${error}`));
      assertAnswered(outgoing, reply);
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
}

function assertAnswered(outgoing: Outgoing, { status, contentType, body }: Reply): void {
  const what = `${show(outgoing)} -> ${status} ${body.toString("latin1").slice(0, 300)}`;
  assert.ok((status >= 200 && status <= 505) || status === 431, what);
  // The text of what nobody foresaw.
  assert.ok(!body.includes('"Internal error"'), what);
  if (status < 400 || outgoing.method === "HEAD" || contentType.startsWith("text/event-stream")) return;
  // Node itself refuses what is no HTTP, without a body.
  if (body.length > 0) assert.equal(typeof (JSON.parse(body.toString()) as { error: unknown }).error, "string", what);
}

function show({ method = "POST", path, headers = {}, body = "" }: Outgoing): string {
  return `${method} ${path} ${JSON.stringify(headers)} base64:${Buffer.from(body).toString("base64").slice(0, 4000)}`;
}
