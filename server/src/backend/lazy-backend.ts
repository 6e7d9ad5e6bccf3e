/** A backend whose code is imported with the first model that names it: a server pays for no backend that it lacks models for. */
import type { Backend, ModelSource } from "./backend.ts";

/**
 * `delegate` is asked before any code is imported. `gpus` is undefined until the code is there: callers ask `describe` or `load` first, as loading a model does.
 * A failed import is tried again by the next load.
 */
export function lazyBackend(
  name: string,
  open: () => Promise<Backend>,
  delegate?: (source: ModelSource) => Promise<Backend | undefined>,
  options: Pick<Backend, "findsRuntime"> = {},
): Backend {
  let opening: Promise<Backend> | undefined;
  let opened: Backend | undefined;
  const start = async (): Promise<Backend> => {
    opened = await open();
    return opened;
  };
  const ready = (): Promise<Backend> => {
    opening ??= start().catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening;
  };
  return {
    name,
    ...options,
    get gpus() {
      return opened?.gpus;
    },
    ...(delegate === undefined ? {} : { delegate }),
    describe: async (source) => (await ready()).describe?.(source),
    load: async (source) => (await ready()).load(source),
    close: async () => (await opening?.catch(() => undefined))?.close(),
  };
}
