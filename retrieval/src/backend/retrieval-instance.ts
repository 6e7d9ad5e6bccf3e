/**
 * One instance of a retrieval model: batches requests that differ in their vectors only into one query. An unavailable
 * store fails only the requests that need it.
 */

import type { BackendRequest, Batch, ModelInstance } from "@nereid/server/backend/backend";
import { ServerError } from "@nereid/server/core/server-error";
import type { Hit, VectorStore } from "../stores/vector-store.ts";
import { answerTensors, type RetrievalQuery, readRetrievalQuery } from "./retrieval-query.ts";
import type { RetrievalSettings } from "./retrieval-settings.ts";

interface Asked {
  readonly request: BackendRequest;
  readonly lookUp: RetrievalQuery;
}

export interface RetrievalParts {
  readonly settings: RetrievalSettings;
  readonly store: VectorStore;
}

export class RetrievalInstance implements ModelInstance {
  readonly name: string;
  readonly #parts: RetrievalParts;

  constructor(name: string, parts: RetrievalParts) {
    this.name = name;
    this.#parts = parts;
  }

  async execute(batch: Batch): Promise<void> {
    batch.computeStarted();
    const groups = this.#groups(batch);
    const answers = await Promise.all([...groups.values()].map((asked) => this.#answer(asked)));
    batch.computeEnded();
    for (const answer of answers) answer();
  }

  isReady(): boolean {
    return true;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #groups({ requests }: Batch): ReadonlyMap<string, Asked[]> {
    const groups = new Map<string, Asked[]>();
    for (const request of requests) {
      try {
        const lookUp = readRetrievalQuery(request.request, this.#parts.settings);
        const group = groups.get(lookUp.key);
        if (group === undefined) groups.set(lookUp.key, [{ request, lookUp }]);
        else group.push({ request, lookUp });
      } catch (error) {
        request.fail(ServerError.from(error));
      }
    }
    return groups;
  }

  async #answer(asked: readonly Asked[]): Promise<() => void> {
    try {
      const hits = await this.#search(asked);
      let at = 0;
      const answers = asked.map(({ request, lookUp }) => {
        const own = hits.slice(at, at + lookUp.query.vectors.length);
        at += lookUp.query.vectors.length;
        return { request, outputs: answerTensors(lookUp, own, this.#parts.settings) };
      });
      return () => {
        for (const { request, outputs } of answers) request.respond({ outputs, final: true });
      };
    } catch (thrown) {
      const error = ServerError.from(thrown);
      return asked.length === 1 || error.code !== "invalid_argument"
        ? () => failAll(asked, error)
        : await this.#apart(asked);
    }
  }

  /** An invalid vector must not fail the other queries. */
  async #apart(asked: readonly Asked[]): Promise<() => void> {
    const answers = await Promise.all(asked.map((one) => this.#answer([one])));
    return () => {
      for (const answer of answers) answer();
    };
  }

  async #search(asked: readonly Asked[]): Promise<readonly (readonly Hit[])[]> {
    const { store, settings } = this.#parts;
    const [first] = asked;
    if (first === undefined) return [];
    const vectors = asked.flatMap(({ lookUp }) => lookUp.query.vectors);
    return store.search(settings.collection, { ...first.lookUp.query, vectors });
  }
}

function failAll(asked: readonly Asked[], error: ServerError): void {
  for (const { request } of asked) request.fail(error);
}
