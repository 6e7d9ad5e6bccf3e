/** All models of the repositories: state, versions, instances, memory, and what an operator does with them. */
import type { ConsoleModel } from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { readyVersion, useConsole } from "../lib/context.ts";
import { bytesText } from "../lib/format.ts";
import { linkTo } from "../lib/hooks.ts";
import { ModelActions } from "./model-actions.tsx";
import { instancesText, StateBadge, stateOf } from "./model-state.tsx";

export function ModelsView(): JSX.Element {
  const { overview } = useConsole();
  const [text, setText] = useState("");
  const models = overview?.models ?? [];
  const shown = models.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()));
  return (
    <>
      <div class="head">
        <h1>Models</h1>
        <input
          type="search"
          placeholder="Filter by name"
          aria-label="Filter models by name"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </div>
      {overview !== undefined && !overview.isExplicit && (
        <p class="notice">
          Models cannot be loaded or unloaded here: the server runs without <code>--model-control-mode=explicit</code>.
        </p>
      )}
      {overview === undefined ? <Loading /> : <ModelList models={shown} isFiltered={text !== ""} />}
    </>
  );
}

function Loading(): JSX.Element {
  return (
    <p class="empty" aria-busy="true">
      Asking the server
    </p>
  );
}

function ModelList({ models, isFiltered }: { models: readonly ConsoleModel[]; isFiltered: boolean }): JSX.Element {
  if (models.length === 0) {
    return <p class="empty">{isFiltered ? "No model has such a name." : "The repositories have no models."}</p>;
  }
  return (
    <ul class="models">
      {models.map((model) => (
        <ModelRow key={model.name} model={model} />
      ))}
    </ul>
  );
}

function ModelRow({ model }: { readonly model: ConsoleModel }): JSX.Element {
  const { name, trialOf } = model;
  const reason = model.versions.find(({ state, reason: text }) => state !== "READY" && text !== "")?.reason;
  const isFailed = stateOf(model) === "UNAVAILABLE" && reason !== undefined && reason !== "unloaded";
  return (
    <li class="card model" data-model={name}>
      <div class="model-head">
        <StateBadge model={model} />
        <h2>
          <a href={linkTo("models", name)}>{name}</a>
        </h2>
        {trialOf !== undefined && <span class="chip">trial of {trialOf}</span>}
        <ModelFacts model={model} />
      </div>
      <ModelActions model={model}>{isFailed && <p class="reason">{firstLine(reason)}</p>}</ModelActions>
    </li>
  );
}

const MAX_REASON_CHARS = 240;

function firstLine(text: string): string {
  const [line = ""] = text.split("\n");
  return line.length > MAX_REASON_CHARS ? `${line.slice(0, MAX_REASON_CHARS)}…` : line;
}

function ModelFacts({ model }: { readonly model: ConsoleModel }): JSX.Element | null {
  const version = readyVersion(model);
  if (version === undefined) return null;
  const { backend, instances, memoryBytes = {} } = version;
  const versions = model.versions.filter(({ state }) => state === "READY").map((each) => each.version);
  const memory = Object.values(memoryBytes).reduce((sum, bytes) => sum + bytes, 0);
  const facts: readonly (readonly [label: string, value: string])[] = [
    ["Backend", backend ?? ""],
    [versions.length === 1 ? "Version" : "Versions", versions.join(", ")],
    ["Runs on", version.isEnsemble === true ? "its steps" : instancesText(instances)],
    ...(memory === 0 ? [] : [["Memory", bytesText(memory)] as const]),
  ];
  return (
    <dl class="facts">
      {facts.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
