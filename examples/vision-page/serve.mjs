#!/usr/bin/env node
/**
 * Serves the page, and hands its requests on to the server, so that both have one origin:
 *
 *   node examples/vision-page/serve.mjs --port 8080 --server http://localhost:8000
 */
import { readdirSync, readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { parseArgs } from "node:util";

const { values: flags } = parseArgs({
  options: {
    port: { type: "string", default: "8080" },
    host: { type: "string", default: "127.0.0.1" },
    server: { type: "string", default: "http://localhost:8000" },
  },
});
const FILES = new Map([
  ["/", ["index.html", "text/html; charset=utf-8"]],
  ["/page.js", ["page.js", "text/javascript; charset=utf-8"]],
  ...readdirSync(new URL("../nereid-tiny/images/", import.meta.url)).map((name) => [
    `/samples/${name}`,
    [`../nereid-tiny/images/${name}`, "image/png"],
  ]),
]);
const MODEL_PATH = "/v2/models/vlm_search/generate";

const server = createServer((incoming, reply) => {
  const file = FILES.get(incoming.url);
  if (file !== undefined) {
    reply.setHeader("content-type", file[1]).end(readFileSync(new URL(file[0], import.meta.url)));
  } else if (incoming.url === MODEL_PATH && incoming.method === "POST") {
    handOn(incoming, reply);
  } else {
    reply.writeHead(404).end();
  }
});
server.listen(Number(flags.port), flags.host, () => {
  console.log(`http://${flags.host}:${server.address().port} asks ${flags.server}`);
});

function handOn(incoming, reply) {
  const outgoing = request(new URL(MODEL_PATH, flags.server), { method: "POST" }, (answer) => {
    reply.writeHead(answer.statusCode, { "content-type": "application/json" });
    answer.pipe(reply);
  });
  outgoing.on("error", (error) => {
    if (!reply.headersSent) reply.writeHead(502, { "content-type": "application/json" });
    reply.end(JSON.stringify({ error: `${flags.server} can not be reached: ${error.message}` }));
  });
  reply.on("close", () => outgoing.destroy());
  incoming.pipe(outgoing);
}
