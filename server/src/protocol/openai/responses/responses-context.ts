/** Parts that the handlers of the Responses API share. Source: own design. */
import type { RouteCall } from "../../api/route.ts";
import type { OpenAiContext } from "../openai-context.ts";
import type { ResponseStore } from "./store/response-store.ts";

export interface ResponsesContext extends OpenAiContext {
  readonly store: ResponseStore;
}

/** To whom the responses of a call belong; "" where calls need no key. */
export function ownerOf({ access }: RouteCall): string {
  return access?.owner ?? "";
}
