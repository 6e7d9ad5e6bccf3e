/** Every view reads this: the calls, the models, and the way to ask for them again. */

import type { ConsoleModel, ConsoleOverview } from "@nereid/server/protocol/console/console-types";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Api } from "./api.ts";

export interface ConsoleContext {
  readonly api: Api;
  readonly overview: ConsoleOverview | undefined;
  refresh(): void;
}

export const Console = createContext<ConsoleContext | undefined>(undefined);

export function useConsole(): ConsoleContext {
  const value = useContext(Console);
  if (value === undefined) throw new Error("a view is outside of the console's context");
  return value;
}

/** The newest version that is ready. */
export function readyVersion(model: ConsoleModel | undefined): ConsoleModel["versions"][number] | undefined {
  return model?.versions.findLast(({ state }) => state === "READY");
}
