/** The state of a model as a badge. Colour is never the only sign. */
import type { ConsoleModel, ModelState } from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";

const TEXTS: Readonly<Record<ModelState | "ABSENT", readonly [tone: string, text: string]>> = {
  READY: ["good", "Ready"],
  LOADING: ["warn", "Loading"],
  UNLOADING: ["warn", "Unloading"],
  UNAVAILABLE: ["bad", "Failed"],
  UNKNOWN: ["idle", "Unknown"],
  ABSENT: ["idle", "Not loaded"],
};
/** The first that any version has is the model's. */
const ORDER: readonly ModelState[] = ["LOADING", "UNLOADING", "READY", "UNAVAILABLE", "UNKNOWN"];

export function stateOf({ versions }: ConsoleModel): ModelState | "ABSENT" {
  const isUnloaded = versions.every(({ state, reason }) => state === "UNAVAILABLE" && reason === "unloaded");
  if (isUnloaded) return "ABSENT";
  return ORDER.find((state) => versions.some((version) => version.state === state)) ?? "ABSENT";
}

export function StateBadge({ model }: { readonly model: ConsoleModel }): JSX.Element {
  const [tone, text] = TEXTS[stateOf(model)];
  return <span class={`badge ${tone}`}>{text}</span>;
}
