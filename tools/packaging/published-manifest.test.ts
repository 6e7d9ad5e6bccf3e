import assert from "node:assert/strict";
import { test } from "node:test";
import {
  onnxRuntimeManifest,
  publishedManifest,
  publishedServerManifest,
  publishedUmbrellaManifest,
  type WorkspaceManifest,
} from "./published-manifest.ts";

const SERVER: WorkspaceManifest = {
  name: "@nereid/server",
  version: "4.5.6",
  license: "Apache-2.0",
  files: ["dist"],
  dependencies: { koffi: "3.0.1", protobufjs: "8.0.0" },
  optionalDependencies: { "@node-llama-cpp/linux-x64": "3.0.0" },
};

test("`publishedManifest()` drops sources and development dependencies, adds notices, keeps the rest", () => {
  const manifest: WorkspaceManifest = {
    name: "@nereid/wire",
    version: "1.0.0",
    files: ["dist"],
    exports: { ".": { "nereid-source": "./src/index.ts", types: "./dist/index.d.ts", default: "./dist/index.js" } },
    devDependencies: { tsx: "4.0.0" },
  };
  assert.deepEqual(publishedManifest(manifest), {
    name: "@nereid/wire",
    version: "1.0.0",
    files: ["dist", "LICENSE", "NOTICE"],
    exports: { ".": { types: "./dist/index.d.ts", default: "./dist/index.js" } },
  });
});

test("`publishedServerManifest()` replaces koffi by its native parts", () => {
  const { dependencies, optionalDependencies } = publishedServerManifest(SERVER);
  assert.deepEqual(dependencies, { protobufjs: "8.0.0" });
  assert.deepEqual(optionalDependencies, {
    "@node-llama-cpp/linux-x64": "3.0.0",
    "@koromix/koffi-linux-x64": "3.0.1",
    "@koromix/koffi-linux-arm64": "3.0.1",
  });
});

test("`publishedUmbrellaManifest()` adds the packages of ONNX Runtime", () => {
  const umbrella: WorkspaceManifest = { name: "nereid", version: "4.5.6", dependencies: { "@nereid/server": "4.5.6" } };
  const { dependencies, optionalDependencies } = publishedUmbrellaManifest(umbrella);
  assert.deepEqual(dependencies, { "@nereid/server": "4.5.6" });
  assert.deepEqual(optionalDependencies, {
    "@nereid/onnxruntime-linux-x64": "4.5.6",
    "@nereid/onnxruntime-linux-arm64": "4.5.6",
  });
});

test("`publishedServerManifest()` refuses a server without koffi", () => {
  assert.throws(() => publishedServerManifest({ ...SERVER, dependencies: {} }), /expected koffi/);
});

test("`onnxRuntimeManifest()` limits a package to its platform", () => {
  const manifest = onnxRuntimeManifest({ os: "linux", cpu: "arm64" }, "1.2.3", SERVER);
  assert.deepEqual(manifest, {
    name: "@nereid/onnxruntime-linux-arm64",
    version: "4.5.6",
    description: "ONNX Runtime 1.2.3 of linux-arm64 for @nereid/server",
    license: "MIT",
    os: ["linux"],
    cpu: ["arm64"],
    libc: ["glibc"],
    preferUnplugged: true,
    files: ["libonnxruntime.so.1", "LICENSE", "ThirdPartyNotices.txt"],
  });
});
