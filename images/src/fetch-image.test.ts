/** A name that says another address each time it is asked (DNS rebinding): only what was judged is connected to. */
import assert from "node:assert/strict";
import dns, { type LookupAddress } from "node:dns";
import { createServer, type ServerResponse } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import type { AddressInfo } from "node:net";
import { after, before, beforeEach, mock, test } from "node:test";
import { fetchImage } from "./fetch-image.ts";

const RULES = { reach: "public", hosts: new Set<string>(), timeoutMs: 60_000 } as const;
/** Public by its number, and given back to the registry: nothing answers there. */
const NOBODY = { address: "3ffe::1", family: 6 };
const LOOPBACK = { address: "127.0.0.1", family: 4 };

let numAsked = 0;
const server = createServer(({ url: path }, response) => {
  numAsked += 1;
  if (path === "/large") sendMuch(response);
  else response.end("secret");
});

/** Without a length: more than an image may have. */
function sendMuch(response: ServerResponse): void {
  response.on("error", () => response.destroy());
  for (let i = 0; i < 40; i++) response.write(Buffer.alloc(2 ** 20));
  response.end();
}
let url = "";
let answers: (readonly LookupAddress[])[] = [];
let numLookups = 0;

before(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://rebinding.test:${(server.address() as AddressInfo).port}/`;
  mock.method(dns, "lookup", (_name: string, _options: object, done: (error: null, found: unknown) => void) => {
    const answer = answers[Math.min(numLookups, answers.length - 1)] ?? [];
    numLookups += 1;
    done(null, answer);
  });
  syncBuiltinESMExports();
});

beforeEach(() => {
  numLookups = 0;
  numAsked = 0;
});

after(() => {
  mock.restoreAll();
  syncBuiltinESMExports();
  server.closeAllConnections();
  server.close();
});

test("fetchImage() connects to the address that it judged, though the name says loopback from then on", async () => {
  answers = [[NOBODY], [LOOPBACK]];
  const never = new AbortController().signal;
  await assert.rejects(fetchImage(url, RULES, never), { code: "unavailable" });
  assert.deepEqual({ numLookups, numAsked }, { numLookups: 1, numAsked: 0 });
});

for (const { name, found } of [
  { name: "loopback", found: [LOOPBACK] },
  { name: "loopback behind a public address", found: [NOBODY, LOOPBACK] },
  { name: "loopback as version 6 writes version 4", found: [{ address: "::ffff:127.0.0.1", family: 6 }] },
  { name: "nothing", found: [] },
]) {
  test(`fetchImage() refuses a name that says ${name}, and asks nobody`, async () => {
    answers = [found];
    const never = new AbortController().signal;
    await assert.rejects(fetchImage(url, RULES, never), /has an address that is not of the public internet/);
    assert.equal(numAsked, 0);
  });
}

test("fetchImage() goes where the same name leads when any address is allowed", async () => {
  const any = { ...RULES, reach: "any" } as const;
  answers = [[LOOPBACK]];
  const bytes = await fetchImage(url, any, new AbortController().signal);
  assert.equal(Buffer.from(bytes).toString(), "secret");
  assert.equal(numAsked, 1);
});

test("fetchImage() stops reading what has no length and is too large", async () => {
  const any = { ...RULES, reach: "any" } as const;
  answers = [[LOOPBACK]];
  await assert.rejects(fetchImage(`${url}large`, any, new AbortController().signal), /has more than \d+ bytes/);
});

test("fetchImage() refuses protocols other than http and https", async () => {
  const any = { ...RULES, reach: "any" } as const;
  for (const address of ["file:///etc/passwd", "ftp://host/x", "data:image/png;base64,AA==", "gopher://x"]) {
    await assert.rejects(fetchImage(address, any, new AbortController().signal), /is not of http or https/, address);
  }
});
