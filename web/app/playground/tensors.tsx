/** A request of tensors: a form for each input, or the JSON of the request. */
import type { ConsoleTensor } from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { headersOf, messageOf } from "../lib/api.ts";
import { useConsole } from "../lib/context.ts";
import { jsonText, msText } from "../lib/format.ts";
import { useAction } from "../lib/hooks.ts";
import { CodeSnippets } from "./code-snippets.tsx";
import { type InferBody, inferSnippets } from "./snippets.ts";
import { TensorField } from "./tensor-field.tsx";
import { bodyWithFiles, draftOf, type TensorDraft, tensorOf } from "./tensor-values.ts";

interface TensorsProps {
  readonly model: string;
  readonly inputs: readonly ConsoleTensor[];
  /** The model answers with a stream. */
  readonly isStream: boolean;
}

/** Body of the form, or why there is none. */
type Made = { readonly body: InferBody } | { readonly problem: string };

function bodyOf(drafts: readonly TensorDraft[], json: string | undefined): Made {
  try {
    if (json !== undefined) return { body: JSON.parse(json) as InferBody };
    return { body: { inputs: drafts.flatMap((draft) => tensorOf(draft) ?? []) } };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

export function Tensors({ model, inputs, isStream }: TensorsProps): JSX.Element {
  const { api } = useConsole();
  const [drafts, setDrafts] = useState(() => inputs.map(draftOf));
  /** Undefined: the form holds. */
  const [json, setJson] = useState<string | undefined>(undefined);
  const made = bodyOf(drafts, json);
  const files = new Map(drafts.flatMap(({ name, file }) => (file === undefined ? [] : [[name, file.bytes] as const])));
  const server = { url: location.origin, headers: headersOf(api.credentials) };
  const snippets =
    "body" in made && Array.isArray(made.body.inputs) ? inferSnippets(server, model, made.body) : undefined;
  const change = (draft: TensorDraft): void =>
    setDrafts(drafts.map((each) => (each.name === draft.name ? draft : each)));
  return (
    <div class="split">
      <section class="card stack" aria-label="Request">
        <fieldset class="row plain" aria-label="Input as">
          <button type="button" class="toggle" aria-pressed={json === undefined} onClick={() => setJson(undefined)}>
            Form
          </button>
          <button
            type="button"
            class="toggle"
            aria-pressed={json !== undefined}
            onClick={() => setJson(json ?? jsonText("body" in made ? made.body : { inputs: [] }))}
          >
            JSON
          </button>
        </fieldset>
        {json === undefined ? (
          drafts.map((draft) => <TensorField key={draft.name} draft={draft} onChange={change} />)
        ) : (
          <textarea
            class="json"
            rows={16}
            spellcheck={false}
            aria-label="Request as JSON"
            value={json}
            onInput={({ currentTarget }) => setJson(currentTarget.value)}
          />
        )}
        <Send model={model} made={made} files={json === undefined ? files : new Map()} isStream={isStream} />
      </section>
      <CodeSnippets snippets={snippets} problem={"problem" in made ? made.problem : undefined} />
    </div>
  );
}

interface SendProps {
  readonly model: string;
  readonly made: Made;
  readonly files: ReadonlyMap<string, Uint8Array>;
  readonly isStream: boolean;
}

function Send({ model, made, files, isStream }: SendProps): JSX.Element {
  const { api } = useConsole();
  const action = useAction();
  const [answer, setAnswer] = useState<{ readonly text: string; readonly ms: number } | undefined>(undefined);
  const path = `/v2/models/${encodeURIComponent(model)}`;
  const send = (): void => {
    if ("problem" in made) return;
    setAnswer(undefined);
    void action.run(async () => {
      const startMs = performance.now();
      const response = isStream
        ? await api.send(`${path}/generate_stream`, jsonInit(generateBody(made.body)))
        : await api.send(`${path}/infer`, inferInit(made.body, files));
      const text = await response.text();
      setAnswer({ text: isStream ? text : pretty(text), ms: performance.now() - startMs });
    });
  };
  return (
    <div class="stack">
      {"problem" in made && <p class="verdict bad">{made.problem}</p>}
      <div class="row">
        <button type="button" class="primary" disabled={action.isBusy || "problem" in made} onClick={send}>
          {action.isBusy ? "Waiting" : "Send"}
        </button>
        <span class="muted" role="status">
          {answer === undefined ? "" : `Answered in ${msText(answer.ms)}`}
        </span>
      </div>
      {action.error !== undefined && (
        <pre class="failure" role="alert">
          {action.error}
        </pre>
      )}
      {answer !== undefined && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1)
        <section class="answer" tabIndex={0} aria-label="Answer">
          <pre>{answer.text}</pre>
        </section>
      )}
    </div>
  );
}

function jsonInit(body: unknown): RequestInit {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

function inferInit(body: InferBody, files: ReadonlyMap<string, Uint8Array>): RequestInit {
  if (files.size === 0) return jsonInit(body);
  const { body: bytes, jsonBytes } = bodyWithFiles(body.inputs, files);
  const headers = { "inference-header-content-length": String(jsonBytes), "content-type": "application/octet-stream" };
  return { method: "POST", headers, body: bytes as BodyInit };
}

/** Inputs by name, as Triton's generate extension takes them. */
function generateBody({ inputs }: InferBody): Readonly<Record<string, unknown>> {
  return Object.fromEntries(inputs.map(({ name, data }) => [name, data.length === 1 ? data[0] : data]));
}

function pretty(text: string): string {
  try {
    return jsonText(JSON.parse(text));
  } catch {
    return text;
  }
}
