/** One model: its versions and tensors, and its configuration. */
import type { ConsoleModel, ConsoleTensor, ConsoleVersion } from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";
import { useConsole } from "../lib/context.ts";
import { bytesText, msText, shapeText } from "../lib/format.ts";
import { linkTo } from "../lib/hooks.ts";
import { ConfigEditor } from "./config-editor.tsx";
import { ModelActions } from "./model-actions.tsx";
import { instancesText, StateBadge } from "./model-state.tsx";

const TABS = [
  ["overview", "Overview"],
  ["config", "Configuration"],
] as const;
const MS_PER_S = 1000;

export function ModelView({ name, tab }: { readonly name: string; readonly tab: string }): JSX.Element {
  const { overview } = useConsole();
  const model = overview?.models.find((each) => each.name === name);
  return (
    <>
      <div class="head">
        <div class="row">
          <a class="back" href={linkTo("models")}>
            Models
          </a>
          <span aria-hidden="true">/</span>
          <h1>{name}</h1>
          {model !== undefined && <StateBadge model={model} />}
        </div>
      </div>
      <nav class="tabs" aria-label={`Parts of ${name}`}>
        {TABS.map(([id, title]) => (
          <a key={id} href={linkTo("models", name, id)} aria-current={id === tab ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      {model === undefined && (
        <p class="empty">{overview === undefined ? "Asking the server" : "There is no such model."}</p>
      )}
      {model !== undefined && (tab === "config" ? <ConfigEditor model={model} /> : <Overview model={model} />)}
    </>
  );
}

function Overview({ model }: { readonly model: ConsoleModel }): JSX.Element {
  return (
    <div class="stack">
      <section class="card stack actions-card" aria-label="Actions">
        <ModelActions model={model} />
      </section>
      {model.versions.map((version) => (
        <Version key={version.version} version={version} />
      ))}
      {model.versions.length === 0 && <p class="empty">The model was not loaded yet.</p>}
    </div>
  );
}

function Version({ version }: { readonly version: ConsoleVersion }): JSX.Element {
  const { state, reason, inputs = [], outputs = [] } = version;
  return (
    <section class="card stack">
      <h2>Version {version.version === "" ? "unknown" : version.version}</h2>
      {state === "READY" ? <VersionFacts version={version} /> : <p class="reason">{reason === "" ? state : reason}</p>}
      {inputs.length > 0 && <Tensors title="Inputs" tensors={inputs} />}
      {outputs.length > 0 && <Tensors title="Outputs" tensors={outputs} />}
    </section>
  );
}

function VersionFacts({ version }: { readonly version: ConsoleVersion }): JSX.Element {
  const { backend = "", instances, maxBatchSize = 0, loadSeconds = 0, memoryBytes = {} } = version;
  const facts: readonly (readonly [string, string])[] = [
    ["Backend", backend],
    ["Instances", version.isEnsemble === true ? "those of its steps" : instancesText(instances)],
    ["Largest batch", maxBatchSize === 0 ? "no batches" : String(maxBatchSize)],
    ["Loaded in", msText(loadSeconds * MS_PER_S)],
    ["Responses", version.isDecoupled === true ? "a stream" : "one a request"],
    ...Object.entries(memoryBytes).map(([kind, bytes]) => [`Memory, ${kind}`, bytesText(bytes)] as const),
  ];
  return (
    <dl class="facts wide">
      {facts.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Tensors({
  title,
  tensors,
}: {
  readonly title: string;
  readonly tensors: readonly ConsoleTensor[];
}): JSX.Element {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a table that scrolls must be reachable by keyboard (WCAG 2.1.1)
    <section class="scroll" tabIndex={0} aria-label={title}>
      <table>
        <caption>{title}</caption>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Datatype</th>
            <th scope="col">Shape</th>
          </tr>
        </thead>
        <tbody>
          {tensors.map(({ name, datatype, shape, isOptional }) => (
            <tr key={name}>
              <td>
                <code>{name}</code> {isOptional && <span class="muted">optional</span>}
              </td>
              <td>{datatype}</td>
              <td>
                <code>{shapeText(shape)}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
