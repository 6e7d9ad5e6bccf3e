/** The metadata that a model's exporter wrote (ModelProto: producer, domain, description, metadata_props). */
import { type Address, cString, viewMemory } from "../ffi.ts";
import type { OrtApi, Status } from "./api.ts";
import { takeString } from "./info.ts";
import { check } from "./status.ts";

export interface OnnxMetadata {
  readonly producerName: string;
  readonly graphName: string;
  readonly domain: string;
  readonly description: string;
  readonly version: bigint;
  readonly custom: ReadonlyMap<string, string>;
}

export function readMetadata(api: OrtApi, allocator: Address, session: Address): OnnxMetadata {
  const out = new BigUint64Array(1);
  check(api, api.SessionGetModelMetadata(session, out));
  const metadata = out[0] ?? 0n;
  const text = (read: (metadata: Address, allocator: Address, out: BigUint64Array) => Status): string => {
    check(api, read(metadata, allocator, out));
    return takeString(api, allocator, out[0] ?? 0n);
  };
  try {
    const keys = readKeys(api, allocator, metadata);
    const version = new BigInt64Array(1);
    check(api, api.ModelMetadataGetVersion(metadata, version));
    return {
      producerName: text(api.ModelMetadataGetProducerName),
      graphName: text(api.ModelMetadataGetGraphName),
      domain: text(api.ModelMetadataGetDomain),
      description: text(api.ModelMetadataGetDescription),
      version: version[0] ?? 0n,
      custom: new Map(
        keys.map((key) => [
          key,
          text((at, from, to) => api.ModelMetadataLookupCustomMetadataMap(at, from, cString(key), to)),
        ]),
      ),
    };
  } finally {
    api.ReleaseModelMetadata(metadata);
  }
}

function readKeys(api: OrtApi, allocator: Address, metadata: Address): string[] {
  const list = new BigUint64Array(1);
  const count = new BigInt64Array(1);
  check(api, api.ModelMetadataGetCustomMetadataMapKeys(metadata, allocator, list, count));
  const address = list[0] ?? 0n;
  if (address === 0n) return [];
  const bytes = viewMemory(address, Number(count[0]) * BigUint64Array.BYTES_PER_ELEMENT).slice();
  const keys = Array.from(new BigUint64Array(bytes.buffer), (key) => takeString(api, allocator, key));
  check(api, api.AllocatorFree(allocator, address));
  return keys;
}
