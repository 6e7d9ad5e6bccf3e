import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { pathOf } from "../transport/node-call.ts";
import { KnownRoutes } from "./known-routes.ts";
import { matchRoute } from "./router.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

test("KnownRoutes finds what matchRoute() finds, the first time and again, however many paths there are", () => {
  const routes = new KnownRoutes();
  const models = Array.from({ length: 1500 }, (_, i) => `/v2/models/m${i}/infer`);
  const paths = [...models, `/v2/models/${"long".repeat(100)}/infer`, "/v2", "/v2/models/m/wrong", "/elsewhere"];
  for (const path of [...paths, ...paths]) assert.deepEqual(routes.match(path), matchRoute(path));
});

test("KnownRoutes gives the same route for a path that comes again", () => {
  const routes = new KnownRoutes();
  assert.equal(routes.match("/v2/models/m/infer"), routes.match("/v2/models/m/infer"));
});

test("KnownRoutes does not keep the queries of the paths that it remembers", () => {
  const routes = new KnownRoutes();
  collectGarbage();
  const beforeBytes = process.memoryUsage().heapUsed;
  for (let i = 0; i < 500; i++) {
    const url = Buffer.from(`/v2/models/a_model_${i}/infer?${"x".repeat(16_000)}`).toString("latin1");
    routes.match(pathOf(url));
  }
  collectGarbage();
  const keptBytes = process.memoryUsage().heapUsed - beforeBytes;
  assert.ok(keptBytes < 2_000_000, `${keptBytes} bytes kept`);
  assert.equal(routes.match("/v2/models/a_model_0/infer"), routes.match("/v2/models/a_model_0/infer"));
});
