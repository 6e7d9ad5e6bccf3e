/**
 * The configuration of a model, checked as it is typed. It can be tried on a copy of the model, applied, and rolled back. The
 * file in the repository stays as it is.
 */
import type {
  ConsoleConfig,
  ConsoleConfigCheck,
  ConsoleConfigProblem,
  ConsoleModel,
} from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Api, messageOf } from "../lib/api.ts";
import { useConsole } from "../lib/context.ts";
import { linkTo, useAction } from "../lib/hooks.ts";

const CHECK_DELAY_MS = 300;

export function ConfigEditor({ model }: { readonly model: ConsoleModel }): JSX.Element {
  const { api } = useConsole();
  const path = `/console/api/models/${encodeURIComponent(model.trialOf ?? model.name)}/config`;
  const [config, setConfig] = useState<ConsoleConfig | undefined>(undefined);
  const [error, setError] = useState<string | undefined>(undefined);
  const read = async (): Promise<void> => {
    setConfig(await api.get<ConsoleConfig>(path));
  };
  useEffect(() => {
    setConfig(undefined);
    read().catch((thrown: unknown) => setError(messageOf(thrown)));
  }, [api, path]);
  if (error !== undefined) return <p class="notice bad">{error}</p>;
  if (config === undefined) return <p class="empty">Asking the server</p>;
  return <Editor key={path} path={path} config={config} onChanged={read} />;
}

/** Undefined while a check is on its way. */
function useCheck(api: Api, path: string, text: string): readonly ConsoleConfigProblem[] | undefined {
  const [problems, setProblems] = useState<readonly ConsoleConfigProblem[] | undefined>(undefined);
  useEffect(() => {
    setProblems(undefined);
    const ended = new AbortController();
    const timer = setTimeout(() => {
      api
        .post<ConsoleConfigCheck>(`${path}/check`, { text }, ended.signal)
        .then((check) => setProblems(check.problems))
        .catch((thrown: unknown) => {
          if (!ended.signal.aborted) setProblems([{ message: messageOf(thrown) }]);
        });
    }, CHECK_DELAY_MS);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [api, path, text]);
  return problems;
}

interface EditorProps {
  readonly path: string;
  readonly config: ConsoleConfig;
  readonly onChanged: () => Promise<void>;
}

function Editor({ path, config, onChanged }: EditorProps): JSX.Element {
  const { api } = useConsole();
  const [text, setText] = useState(config.applied ?? config.text);
  const problems = useCheck(api, path, text);
  const [problem] = problems ?? [];
  return (
    <section class="card stack">
      <div class="row spread">
        <code class="place">{config.file}</code>
        {config.applied !== undefined && <span class="badge warn">differs from the file</span>}
      </div>
      <CodeArea text={text} onText={setText} problem={problem} />
      <p class={`verdict ${verdictTone(problems)}`} role="status" id="verdict">
        {verdict(problems)}
      </p>
      <EditorActions
        path={path}
        config={config}
        text={text}
        isValid={problems?.length === 0}
        onChanged={onChanged}
        onReset={() => setText(config.text)}
      />
    </section>
  );
}

function verdictTone(problems: readonly ConsoleConfigProblem[] | undefined): string {
  return problems === undefined ? "idle" : problems.length === 0 ? "good" : "bad";
}

function verdict(problems: readonly ConsoleConfigProblem[] | undefined): string {
  if (problems === undefined) return "Checking";
  const [problem] = problems;
  if (problem === undefined) return "The configuration is valid";
  return problem.line === undefined
    ? problem.message
    : `Line ${problem.line}, column ${problem.column}: ${problem.message}`;
}

interface CodeAreaProps {
  readonly text: string;
  readonly onText: (text: string) => void;
  readonly problem: ConsoleConfigProblem | undefined;
}

function CodeArea({ text, onText, problem }: CodeAreaProps): JSX.Element {
  const gutter = useRef<HTMLDivElement>(null);
  const lines = text.split("\n");
  return (
    <div class="code">
      <div class="gutter" ref={gutter} aria-hidden="true">
        {lines.map((_, i) => (
          <span key={i} class={problem?.line === i + 1 ? "wrong" : ""}>
            {i + 1}
          </span>
        ))}
      </div>
      <textarea
        aria-label="Configuration"
        aria-describedby="verdict"
        aria-invalid={problem !== undefined}
        spellcheck={false}
        wrap="off"
        rows={Math.max(12, Math.min(28, lines.length + 1))}
        value={text}
        onInput={({ currentTarget }) => onText(currentTarget.value)}
        onScroll={({ currentTarget }) => {
          if (gutter.current !== null) gutter.current.scrollTop = currentTarget.scrollTop;
        }}
      />
    </div>
  );
}

interface EditorActionsProps extends EditorProps {
  readonly text: string;
  readonly isValid: boolean;
  readonly onReset: () => void;
}

function EditorActions({ path, config, text, isValid, onChanged, onReset }: EditorActionsProps): JSX.Element {
  const { api, overview, refresh } = useConsole();
  const action = useAction();
  const [done, setDone] = useState("");
  const act = (name: string, words: string): void => {
    setDone("");
    void action.run(async () => {
      await api.post(`${path}/${name}`, { text });
      await onChanged();
      refresh();
      setDone(words);
      if (name === "roll-back") onReset();
    });
  };
  if (overview?.isExplicit !== true) {
    return <p class="muted">To try and apply a configuration, start the server with --model-control-mode=explicit.</p>;
  }
  const cannot = action.isBusy || !isValid;
  return (
    <div class="stack">
      <div class="row">
        <button type="button" disabled={cannot} onClick={() => act("try", "The copy is loaded")}>
          Try on a copy
        </button>
        <button
          type="button"
          class="primary"
          disabled={cannot}
          onClick={() => act("apply", "The model runs with this text")}
        >
          Apply
        </button>
        <button
          type="button"
          disabled={action.isBusy}
          onClick={() => act("roll-back", "The model runs as its file says")}
        >
          Roll back
        </button>
        <span class="muted" role="status">
          {action.isBusy ? "The server is loading" : done}
        </span>
      </div>
      {config.trial !== undefined && (
        <p class="notice">
          <span>
            The copy <a href={linkTo("playground", config.trial)}>{config.trial}</a> is loaded.
          </span>
          <button type="button" onClick={() => act("end-trial", "The copy is gone")}>
            End the trial
          </button>
        </p>
      )}
      {action.error !== undefined && (
        <pre class="failure" role="alert">
          {action.error}
        </pre>
      )}
      <p class="muted">Applying changes the running model alone. Copy the text into the file to keep it.</p>
    </div>
  );
}
