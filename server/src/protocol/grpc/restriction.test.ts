import assert from "node:assert/strict";
import { test } from "node:test";
import { expectAllowed, grpcRestrictions } from "./restriction.ts";

test("the key of a restriction has Triton's prefix, given or not", () => {
  for (const key of ["k", "triton-grpc-protocol-k"]) {
    const restrictions = grpcRestrictions([{ apis: ["logging"], key, value: "v" }]);
    expectAllowed(restrictions, "logging", { "triton-grpc-protocol-k": "v" });
    expectAllowed(restrictions, "health", {});
    for (const metadata of [{}, { k: "v" }, { "triton-grpc-protocol-k": ["v"] }, { "triton-grpc-protocol-k": "vv" }]) {
      const refused = /expecting header 'triton-grpc-protocol-k'/;
      assert.throws(() => expectAllowed(restrictions, "logging", metadata as Record<string, string>), refused);
    }
  }
});
