/**
 * A TCP proxy between a server and a store, which plays the states that a store and a network can be in. Connections that
 * were stalled stay dead when the store comes back, as those of a half-open network do.
 */
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

export type StoreState =
  | { readonly kind: "well" }
  /** No listener, and all connections closed. */
  | { readonly kind: "refuses" }
  /** Connections are accepted, and nothing moves on new and old ones. */
  | { readonly kind: "stalls" }
  /** Each piece of an answer comes so much later. */
  | { readonly kind: "late"; readonly delayMs: number }
  /** Connections end in order after so many bytes of answers, counted from now. */
  | { readonly kind: "cuts"; readonly afterBytes: number }
  /** Connections are reset as soon as the server sends something. */
  | { readonly kind: "resets" };

const HOST = "127.0.0.1";

interface Pair {
  readonly client: Socket;
  readonly store: Socket | undefined;
  numBytes: number;
  isDead: boolean;
}

export class StoreProxy implements AsyncDisposable {
  readonly port: number;
  readonly #storePort: number;
  readonly #pairs = new Set<Pair>();
  #state: StoreState = { kind: "well" };
  #listener: Server | undefined;

  private constructor(port: number, storePort: number, listener: Server) {
    this.port = port;
    this.#storePort = storePort;
    this.#listener = listener;
    listener.on("connection", (client) => this.#accept(client));
  }

  static async start(storePort: number): Promise<StoreProxy> {
    const listener = await listen(0);
    const address = listener.address();
    return new StoreProxy(typeof address === "object" ? (address?.port ?? 0) : 0, storePort, listener);
  }

  async enter(state: StoreState): Promise<void> {
    this.#state = state;
    for (const pair of this.#pairs) pair.numBytes = 0;
    if (state.kind === "stalls") for (const pair of this.#pairs) pair.isDead = true;
    if (state.kind === "refuses") await this.#close();
    else await this.#open();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
  }

  async #open(): Promise<void> {
    if (this.#listener !== undefined) return;
    this.#listener = await listen(this.port);
    this.#listener.on("connection", (client) => this.#accept(client));
  }

  async #close(): Promise<void> {
    const listener = this.#listener;
    this.#listener = undefined;
    for (const { client, store } of this.#pairs) {
      client.destroy();
      store?.destroy();
    }
    if (listener === undefined) return;
    listener.close();
    await once(listener, "close");
  }

  #accept(client: Socket): void {
    const isDead = this.#state.kind === "stalls";
    const store = isDead ? undefined : connect(this.#storePort, HOST);
    const pair: Pair = { client, store, numBytes: 0, isDead };
    this.#pairs.add(pair);
    client.on("error", () => client.destroy());
    client.on("data", (piece: Buffer) => this.#fromServer(pair, piece));
    client.on("close", () => {
      this.#pairs.delete(pair);
      store?.destroy();
    });
    store?.on("error", () => client.destroy());
    store?.on("data", (piece: Buffer) => this.#fromStore(pair, piece));
    store?.on("close", () => {
      if (!pair.isDead) client.destroySoon();
    });
  }

  #fromServer({ client, store, isDead }: Pair, piece: Buffer): void {
    if (isDead) return;
    if (this.#state.kind === "resets") client.resetAndDestroy();
    else store?.write(piece);
  }

  #fromStore(pair: Pair, piece: Buffer): void {
    const state = this.#state;
    const { client } = pair;
    if (pair.isDead || client.destroyed) return;
    switch (state.kind) {
      case "well":
        client.write(piece);
        return;
      case "late":
        setTimeout(() => {
          if (!client.destroyed && !pair.isDead) client.write(piece);
        }, state.delayMs);
        return;
      case "cuts":
        client.write(piece.subarray(0, Math.max(0, state.afterBytes - pair.numBytes)));
        pair.numBytes += piece.length;
        if (pair.numBytes >= state.afterBytes) client.destroySoon();
        return;
      case "refuses":
      case "stalls":
        return; // the connection is closed or dead
      case "resets":
        client.resetAndDestroy();
    }
  }
}

async function listen(port: number): Promise<Server> {
  const server = createServer();
  await once(server.listen(port, HOST), "listening");
  return server;
}
