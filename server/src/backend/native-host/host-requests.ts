/** The requests that a host process works on, and those that have ended of which it may still report statistics. */
import type { BackendRequest, ResponseReport } from "../backend.ts";
import { decodeOptionalResponse } from "../python/messages.ts";
import type { FrameReader } from "../python/wire-codec.ts";
import { type RequestSignals, RequestsInFlight } from "../supervision/requests-in-flight.ts";

export class HostRequests extends RequestsInFlight {
  /** By key, until the backend has let go of the request and of all that belongs to it. */
  readonly #known = new Map<number, BackendRequest>();

  constructor(decoupled: boolean, signals: RequestSignals) {
    super(decoupled, signals);
  }

  override add(target: BackendRequest): number {
    const key = super.add(target);
    this.#known.set(key, target);
    return key;
  }

  override release(keys: readonly number[]): void {
    super.release(keys);
    for (const key of keys) this.#known.delete(key);
  }

  /** A message of kind `RESPONSE`. */
  answered(reader: FrameReader): void {
    const key = reader.u32();
    const isFinal = reader.bool();
    this.respond(key, decodeOptionalResponse(reader), isFinal);
  }

  report(key: number, report: ResponseReport): void {
    this.#known.get(key)?.reportResponse?.(report);
  }

  /** The backend has let go of the request. */
  ended(key: number): void {
    this.#known.delete(key);
  }

  /** The process is gone. */
  forget(): void {
    this.#known.clear();
  }
}
