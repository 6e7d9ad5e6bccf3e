import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { V2_ROUTES } from "./described-routes.ts";
import { matchRoute } from "./router.ts";

test("each described route is the one that its path is routed to", () => {
  for (const { name, path } of V2_ROUTES) {
    assert.equal(matchRoute(path.replaceAll(/\{(\w+)\}/g, "$1"))?.name, name, path);
  }
});

test("every route of the router is described", () => {
  const source = readFileSync(new URL("./router.ts", import.meta.url), "utf8");
  const [, union = ""] = /RouteName =\n([^;]*);/.exec(source) ?? [];
  const names = [...union.matchAll(/"(\w+)"/g)].map(([, name]) => name);
  assert.ok(names.length > 15);
  assert.deepEqual(
    names.filter((name) => !V2_ROUTES.some((route) => route.name === name)),
    [],
  );
});
