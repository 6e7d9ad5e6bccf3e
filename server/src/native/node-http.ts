/**
 * `node:http` without an import of it: for its names an import reads all exports, `WebSocket` among them, whose getter loads the
 * `fetch()` client of Node.js. That takes 20 ms of a start since Node.js 22.5. Source: lib/http.js and
 * lib/internal/bootstrap/realm.js of Node.js.
 */
import { createRequire } from "node:module";

export const http: typeof import("node:http") = createRequire(import.meta.url)("node:http");
