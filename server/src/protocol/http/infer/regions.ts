/** Routes that register, unregister and list regions of shared memory (Triton's system shared memory extension). */
import type { JsonObject, JsonValue } from "@nereid/wire";
import { invalidArgument } from "../../../core/server-error.ts";
import { SHARED_HANDLE_BYTES } from "../../../native/cuda/functions.ts";
import type { SharedMemoryRegions } from "../../shared-memory.ts";
import type { HttpCall } from "../http-call.ts";
import { emptyReply, type HttpReply, jsonReply } from "../http-reply.ts";
import { expectString, expectUnsigned, jsonError } from "../json/json-access.ts";
import { readObject } from "../json/read-object.ts";
import type { RouteMatch } from "../routes/router.ts";

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
    if (region === "") throw invalidArgument(`'region name' is necessary to register ${memory} shared memory region`);
    if (memory === "cuda") return this.#registerCuda(region, call);
    const body = await readObject(call, this.#maxInputBytes, false);
    const key = expectString(expectField(body, "key"), "");
    const offset = body.has("offset") ? BigInt(expectUnsigned(body.get("offset"), "")) : 0n;
    const byteSize = BigInt(expectUnsigned(expectField(body, "byte_size"), ""));
    this.#regions.register(region, key, offset, byteSize);
    return emptyReply(200, "application/json");
  }

  async #registerCuda(region: string, call: HttpCall): Promise<HttpReply> {
    this.#regions.expectDevices(region);
    const body = await readObject(call, this.#maxInputBytes, true);
    const rawHandle = expectField(body, "raw_handle");
    const handle = Buffer.from(expectString(member(rawHandle, "b64"), ""), "base64");
    const byteSize = BigInt(expectUnsigned(member(body, "byte_size"), ""));
    const deviceId = BigInt(expectUnsigned(member(body, "device_id"), ""));
    if (handle.length !== SHARED_HANDLE_BYTES) {
      throw invalidArgument("'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t");
    }
    this.#regions.registerCuda(region, handle, deviceId, byteSize);
    return emptyReply(200, "application/json");
  }

  unregister({ region, memory }: RouteMatch): HttpReply {
    this.#regions.unregister(region, memory);
    return emptyReply(200, "application/json");
  }
}

/** @throws ServerError internal, as upstream, when there is none */
function member(object: JsonValue, name: string): JsonValue {
  const value = object instanceof Map ? object.get(name) : undefined;
  if (value !== undefined) return value;
  throw jsonError(`attempt to access non-existing object member '${name}'`);
}

function expectField(body: JsonObject, name: string): JsonValue {
  const value = body.get(name);
  if (value !== undefined) return value;
  throw invalidArgument(`Shared memory register request has no '${name}' field`);
}
