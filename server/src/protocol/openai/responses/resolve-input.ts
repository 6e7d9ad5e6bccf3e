/**
 * The items of a conversation: those of earlier responses, then those of the request, with references replaced by the
 * items that they name. Source: OpenAI's guide "Conversation state".
 */
import { ApiError, invalidRequest } from "../../api/api-error.ts";
import type { JsonObject } from "../../api/schema.ts";
import type { PlacedItem } from "./conversation.ts";
import { withIds } from "./input-items.ts";
import type { PromptFields } from "./request.ts";
import type { ResponseStore } from "./store/response-store.ts";
import type { StoredResponse } from "./store/stored-response.ts";

const PREVIOUS = "previous_response_id";

export interface ResolvedInput {
  /** All items of the conversation. */
  readonly items: readonly PlacedItem[];
  /** Items of the request alone, each with an id. */
  readonly own: readonly JsonObject[];
}

/** @throws ApiError for an earlier response or an item that is not kept */
export function resolveInput(
  store: ResponseStore,
  owner: string,
  body: Pick<PromptFields, "input" | "previous_response_id">,
): ResolvedInput {
  const earlier = chainOf(store, owner, body.previous_response_id).flatMap((response) => response.items());
  const own = withIds(body.input.map((item, i) => resolved(store, owner, item, `input[${i}]`)));
  return {
    items: [
      ...earlier.map((item) => ({ item, path: PREVIOUS })),
      ...own.map((item, i) => ({ item, path: `input[${i}]` })),
    ],
    own,
  };
}

/** The responses up to this one, the first first. @throws ApiError */
export function chainOf(store: ResponseStore, owner: string, id: string | undefined): readonly StoredResponse[] {
  const chain: StoredResponse[] = [];
  for (let next = id; next !== undefined; ) {
    const response = store.find(owner, next);
    if (response === undefined) throw notKept(next);
    if (response.isRunning) {
      throw invalidRequest(PREVIOUS, "invalid_value", `Response with id '${next}' is still in progress.`);
    }
    chain.push(response);
    next = response.previousId;
  }
  return chain.reverse();
}

function notKept(id: string): ApiError {
  const message = `Previous response with id '${id}' not found.`;
  return invalidRequest(PREVIOUS, "previous_response_not_found", message);
}

function resolved(store: ResponseStore, owner: string, item: JsonObject, path: string): JsonObject {
  if (item.type !== "item_reference") return item;
  const found = store.findItem(owner, String(item.id));
  if (found !== undefined) return found;
  const message = `Item with id '${String(item.id)}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`;
  throw new ApiError({ status: 404, type: "invalid_request_error", code: null, param: path, message });
}
