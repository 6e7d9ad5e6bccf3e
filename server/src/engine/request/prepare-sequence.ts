/** Fetches what a sequence waits for before the planner sees it: its guide, its adapter. It starts nothing. */
import { ServerError } from "../../core/server-error.ts";
import type { EngineServices } from "../engine-services.ts";
import type { Sequence } from "./sequence.ts";

/**
 * Once `isWanted` is false, resources are released at once. Resources acquired before belong to the caller, also when
 * this rejects. @throws ServerError when a resource is not available
 */
export async function prepareSequence(
  sequence: Sequence,
  { guides, adapters }: EngineServices,
  isWanted: () => boolean,
): Promise<void> {
  const { guide, adapter } = sequence.request;
  if (guide !== undefined) {
    const session = await guides?.open(guide, sequence.endIds);
    if (!isWanted()) {
      session?.close();
      return;
    }
    sequence.guide = session;
  }
  if (adapter === undefined) return;
  if (adapters === undefined) throw new ServerError("unsupported", "this engine has no LoRA adapters");
  const held = await adapters.hold(adapter);
  if (!isWanted()) {
    adapters.release(held);
    return;
  }
  sequence.adapter = held;
  // Its matrices, if it brought some, are on the device now.
  const { request } = sequence;
  sequence.request = { ...request, adapter: undefined, cacheSalt: `${request.cacheSalt}#${held.salt}` };
}
