/**
 * The HTTP client of Node, Deno and Bun: that of browsers over connections of its own. Source: KServe V2, HTTP/REST.
 */
import type { ServedModels } from "../model-types.ts";
import { NereidClient as FetchClient, type NereidClientOptions } from "../nereid-client.ts";
import { HttpPool, type PoolOptions } from "./http-pool.ts";

export interface NodeClientOptions extends NereidClientOptions {
  /** Connections to the server. They are not used when `fetch` is given. */
  readonly pool?: PoolOptions | undefined;
}

/** `Models`: types that `nereid types` wrote. Without them every name, datatype and shape is allowed. */
export class NereidClient<Models extends ServedModels = ServedModels>
  extends FetchClient<Models>
  implements Disposable
{
  readonly #pool: HttpPool;

  /** @throws TypeError for an address that is none of http or https @throws RangeError for other options */
  constructor(options: NodeClientOptions) {
    const pool = new HttpPool(options.url.startsWith("https:"), options.pool);
    super(options, options.fetch === undefined ? pool.exchange : undefined);
    this.#pool = pool;
  }

  /** Closes all connections. Idle ones do not keep a program alive. */
  close(): void {
    this.#pool.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
