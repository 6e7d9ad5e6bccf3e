/** A worker for tests: answers, refuses, fails, exits or hangs on request. */
import process from "node:process";
import { ServerError } from "../core/server-error.ts";
import { serveWorkerCalls } from "./serve-calls.ts";

await serveWorkerCalls((data) => {
  if (data === "unusable") return Promise.reject(new ServerError("unavailable", "no echo in this room"));
  return Promise.resolve((body: unknown) => {
    if (body === "refuse") return Promise.reject(new ServerError("invalid_argument", "not that"));
    if (body === "fault") return Promise.reject(new TypeError("a secret of the worker"));
    if (body === "die") process.exit(7);
    if (body === "never") return new Promise(() => undefined);
    return Promise.resolve({ data, body });
  });
});
