import assert from "node:assert/strict";
import { test } from "node:test";
import { pathOf } from "../transport/node-call.ts";
import { matchRoute } from "./router.ts";

const ROUTES: [string, string, string, string][] = [
  ["/v2", "serverMetadata", "", ""],
  ["/v2/health/live", "live", "", ""],
  ["/v2/models/stats", "allStatistics", "", ""],
  ["/v2/models/stats/infer", "infer", "stats", ""],
  ["/v2/models/m", "modelMetadata", "m", ""],
  ["/v2/models/sim%70le/ready", "modelReady", "sim%70le", ""],
  ["/v2/models/m/versions/12", "modelMetadata", "m", "12"],
  ["/v2/models/m/versions/12/config", "modelConfig", "m", "12"],
  ["/v2/models/m/versions/1/stats", "modelStatistics", "m", "1"],
  ["/v2/models/m/generate_stream", "generateStream", "m", ""],
  ["/v2/models/m/trace/setting", "traceSetting", "m", ""],
  ["/v2/repository/anything/index", "index", "", ""],
  ["/v2/repository/models/m/load", "load", "m", ""],
  ["/v2/repository/r/models/m/unload", "unload", "m", ""],
];
for (const [path, name, model, version] of ROUTES) {
  test(`matchRoute() finds ${name} for ${path}`, () => {
    const match = matchRoute(path);
    assert.deepEqual([match?.name, match?.model, match?.version], [name, model, version]);
  });
}

test("matchRoute() tells regions and kinds of shared memory apart", () => {
  assert.equal(matchRoute("/v2/systemsharedmemory/status")?.region, "");
  const match = matchRoute("/v2/cudasharedmemory/region/r/register");
  assert.deepEqual([match?.name, match?.region, match?.memory], ["sharedMemoryRegister", "r", "cuda"]);
});

const UNKNOWN = [
  "",
  "/",
  "/v2/",
  "/V2",
  "/v2/models",
  "/v2/models/",
  "/v2//health",
  "/v2/health",
  "/v2/models/m/",
  "/v2/models/m/other",
  "/v2/models/m/versions",
  "/v2/models/m/versions/",
  "/v2/models/m/versions/x",
  "/v2/models/m/versions/-1",
  "/v2/models/m/versions/1/",
  "/v2/models/m/versions/1/trace/setting",
  "/v2/logging/",
  "/v2/repository/models/load",
  "/v2/repository/a/b/models/m/load",
  "/v2/systemsharedmemory/region//status",
];
for (const path of UNKNOWN) {
  test(`matchRoute() knows no route for "${path}"`, () => {
    assert.equal(matchRoute(path), undefined);
  });
}

const PATHS: [string, string][] = [
  ["/v2?x=/1", "/v2"],
  ["http://host/v2/health/live", "/v2/health/live"],
  ["http://host", "http://host"],
  ["*", "*"],
];
for (const [url, path] of PATHS) {
  test(`pathOf() takes ${path} from ${url}`, () => {
    assert.equal(pathOf(url), path);
  });
}
