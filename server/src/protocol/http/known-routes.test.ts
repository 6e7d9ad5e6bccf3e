import assert from "node:assert/strict";
import { test } from "node:test";
import { KnownRoutes } from "./known-routes.ts";
import { matchRoute } from "./router.ts";

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
