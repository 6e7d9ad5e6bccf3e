/** The routes that register, unregister and list regions of shared memory. */
import type { JsonObject, JsonValue } from "@nereid/wire";
import { ServerError } from "../../core/server-error.ts";
import type { SharedMemoryRegions } from "../shared-memory.ts";
import type { HttpCall } from "./http-call.ts";
import { emptyReply, type HttpReply, jsonReply } from "./http-reply.ts";
import { expectString, expectUnsigned } from "./json-access.ts";
import { readObject } from "./read-object.ts";
import type { RouteMatch } from "./router.ts";

export class RegionHandlers {
  readonly #regions: SharedMemoryRegions;
  readonly #maxInputBytes: number;

  constructor(regions: SharedMemoryRegions, maxInputBytes: number) {
    this.#regions = regions;
    this.#maxInputBytes = maxInputBytes;
  }

  status({ region, memory }: RouteMatch): HttpReply {
    return jsonReply(memory === "cuda" ? this.#regions.cudaStatus(region) : this.#regions.systemStatus(region));
  }

  async register({ region, memory }: RouteMatch, call: HttpCall): Promise<HttpReply> {
    this.#regions.expectAllowed();
    if (memory === "cuda") this.#regions.refuseCuda(region);
    const body = await readObject(call, this.#maxInputBytes, false);
    const key = expectString(expectField(body, "key"), "");
    const offset = body.has("offset") ? BigInt(expectUnsigned(body.get("offset"), "")) : 0n;
    const byteSize = BigInt(expectUnsigned(expectField(body, "byte_size"), ""));
    this.#regions.register(region, key, offset, byteSize);
    return emptyReply(200, "application/json");
  }

  unregister({ region, memory }: RouteMatch): HttpReply {
    this.#regions.expectAllowed();
    if (memory === "system") this.#regions.unregister(region);
    return emptyReply(200, "application/json");
  }
}

function expectField(body: JsonObject, name: string): JsonValue {
  const value = body.get(name);
  if (value !== undefined) return value;
  throw new ServerError("invalid_argument", `Shared memory register request has no '${name}' field`);
}
