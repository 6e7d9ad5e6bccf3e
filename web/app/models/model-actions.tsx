/** Load, reload and unload. A failure shows the server's words, and the findings of `nereid doctor` below them. */
import type { ConsoleDiagnosis, ConsoleFinding, ConsoleModel } from "@nereid/server/protocol/console/console-types";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../lib/api.ts";
import { useConsole } from "../lib/context.ts";
import { linkTo, useAction } from "../lib/hooks.ts";
import { stateOf } from "./model-state.tsx";

interface ModelActionsProps {
  readonly model: ConsoleModel;
  /** Between the buttons and what went wrong. */
  readonly children?: ComponentChildren;
}

export function ModelActions({ model, children }: ModelActionsProps): JSX.Element {
  const { api, overview, refresh } = useConsole();
  const action = useAction();
  const [doing, setDoing] = useState("");
  const path = `/v2/repository/models/${encodeURIComponent(model.name)}`;
  const isReady = stateOf(model) === "READY";
  const act = (name: "load" | "unload", words: string): void => {
    setDoing(words);
    void action
      .run(async () => {
        await api.post(`${path}/${name}`, {});
      })
      .then(refresh);
  };
  return (
    <>
      <div class="row model-buttons">
        {overview?.isExplicit === true && model.trialOf === undefined && (
          <>
            <button
              type="button"
              disabled={action.isBusy}
              onClick={() => act("load", isReady ? "Reloading" : "Loading")}
            >
              {isReady ? "Reload" : "Load"}
            </button>
            {isReady && (
              <button type="button" disabled={action.isBusy} onClick={() => act("unload", "Unloading")}>
                Unload
              </button>
            )}
          </>
        )}
        {isReady && (
          <a class="button" href={linkTo("playground", model.name)}>
            Try it
          </a>
        )}
        <span class="muted" role="status">
          {action.isBusy ? `${doing} ${model.name}` : ""}
        </span>
      </div>
      {children}
      <Trouble model={model} error={action.error} />
    </>
  );
}

interface TroubleProps {
  readonly model: ConsoleModel;
  readonly error: string | undefined;
}

/** Findings are asked for when the model failed, and when somebody looks. */
function Trouble({ model, error }: TroubleProps): JSX.Element | null {
  const [isOpen, setOpen] = useState(false);
  const hasFailed = error !== undefined || stateOf(model) === "UNAVAILABLE";
  if (!hasFailed) return null;
  const isShown = isOpen || error !== undefined;
  return (
    <div class="trouble">
      {error !== undefined && (
        <pre class="failure" role="alert">
          {error}
        </pre>
      )}
      {!isShown && (
        <button type="button" onClick={() => setOpen(true)}>
          Explain
        </button>
      )}
      {isShown && <Findings model={model.name} occasion={error} />}
    </div>
  );
}

interface FindingsProps {
  readonly model: string;
  /** Another one asks again. */
  readonly occasion: string | undefined;
}

function Findings({ model, occasion }: FindingsProps): JSX.Element {
  const { api } = useConsole();
  const [findings, setFindings] = useState<readonly ConsoleFinding[] | undefined>(undefined);
  const [error, setError] = useState<string | undefined>(undefined);
  useEffect(() => {
    setFindings(undefined);
    setError(undefined);
    api
      .get<ConsoleDiagnosis>(`/console/api/models/${encodeURIComponent(model)}/diagnosis`)
      .then(({ findings: found }) => setFindings(found))
      .catch((thrown: unknown) => setError(messageOf(thrown)));
  }, [api, model, occasion]);
  if (error !== undefined) return <p class="muted">No diagnosis: {error}</p>;
  if (findings === undefined) return <p class="muted">Examining the model</p>;
  if (findings.length === 0) return <p class="muted">The files of the model show no fault.</p>;
  return (
    <ul class="findings" aria-label="Diagnosis">
      {findings.map((finding) => (
        <Finding key={`${finding.file}:${finding.line}:${finding.problem}`} finding={finding} />
      ))}
    </ul>
  );
}

function Finding({ finding }: { readonly finding: ConsoleFinding }): JSX.Element {
  const { severity, file, line, problem, fix } = finding;
  const tone = { error: "bad", warning: "warn", note: "idle" }[severity];
  return (
    <li>
      <span class={`badge ${tone}`}>{severity}</span>
      <div>
        <p>{problem}</p>
        <p class="fix">
          <strong>Fix:</strong> {fix}
        </p>
        <code class="place">
          {file}
          {line === undefined ? "" : `:${line}`}
        </code>
      </div>
    </li>
  );
}
