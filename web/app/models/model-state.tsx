/** The state of a model as a badge, and its instances as text. Colour is never the only sign. */
import type { ConsoleModel, ConsoleVersion, ModelState } from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";
import { plural } from "../lib/format.ts";

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

export function instancesText(instances: ConsoleVersion["instances"]): string {
  if (instances === undefined) return "";
  return `${plural(instances.count, "instance")}, ${instances.kinds.join(" and ")}`;
}
