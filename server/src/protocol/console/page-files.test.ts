import assert from "node:assert/strict";
import { test } from "node:test";
import { PageFiles } from "./page-files.ts";

const FILE = (path: string) => ({ path, bytes: Buffer.from("plain"), gzipped: Buffer.from("zipped") });
const FILES = [FILE("index.html"), FILE("assets/a-1.js")];

async function reply(
  path: string,
  accepts: string,
): Promise<{ body: string; headers: string; type: string | undefined }> {
  const files = new PageFiles(async () => FILES);
  const { body, headers, contentType } = await files.reply(path, { header: () => accepts });
  return { body: Buffer.concat(body).toString(), headers: headers.join(" "), type: contentType };
}

test("`reply()` compresses for clients that take gzip", async () => {
  assert.equal((await reply("index.html", "gzip, br")).body, "zipped");
  assert.equal((await reply("index.html", "br")).body, "plain");
  assert.equal((await reply("index.html", "gzip;q=0, br")).body, "plain");
});

test("`reply()` keeps scripts for ever, and asks again for the page, which runs nothing from elsewhere", async () => {
  const script = await reply("assets/a-1.js", "");
  assert.match(script.headers, /immutable/);
  assert.equal(script.type, "text/javascript; charset=utf-8");
  const page = await reply("index.html", "");
  assert.match(page.headers, /no-cache/);
  assert.match(page.headers, /default-src 'none'; script-src 'self'/);
});

test("`reply()` refuses unknown files, and asks the package again after a failure", async () => {
  await assert.rejects(reply("assets/../../package.json", ""), /has no file/);
  let calls = 0;
  const files = new PageFiles(async () => {
    calls += 1;
    if (calls === 1) throw new Error("not installed");
    return FILES;
  });
  const call = { header: () => undefined };
  await assert.rejects(files.reply("index.html", call), /not installed/);
  assert.equal((await files.reply("index.html", call)).status, 200);
});
