/** A model of one's choice: a chat for models of text, tensors for all. */
import type { ConsoleModel } from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { readyVersion, useConsole } from "../lib/context.ts";
import { linkTo } from "../lib/hooks.ts";
import { Chat } from "./chat.tsx";
import { Tensors } from "./tensors.tsx";

export function PlaygroundView({ selected }: { readonly selected: string | undefined }): JSX.Element {
  const { overview } = useConsole();
  const models = (overview?.models ?? []).filter((model) => readyVersion(model) !== undefined);
  const model = models.find(({ name }) => name === selected) ?? (selected === undefined ? models[0] : undefined);
  return (
    <>
      <div class="head">
        <h1>Playground</h1>
        <label class="inline">
          <span>Model</span>
          <select
            value={model?.name ?? ""}
            onChange={({ currentTarget }) => {
              location.hash = linkTo("playground", currentTarget.value);
            }}
          >
            {model === undefined && <option value="">{selected ?? "none"}</option>}
            {models.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      </div>
      {model === undefined ? (
        <p class="empty">{overview === undefined ? "Asking the server" : "No such model is ready."}</p>
      ) : (
        <Playground key={model.name} model={model} />
      )}
    </>
  );
}

function Playground({ model }: { readonly model: ConsoleModel }): JSX.Element {
  const { overview } = useConsole();
  const version = readyVersion(model);
  const canChat = version?.isText === true && overview?.hasOpenAi === true;
  const [mode, setMode] = useState<"chat" | "tensors">(canChat ? "chat" : "tensors");
  return (
    <>
      {canChat && (
        <fieldset class="row plain modes" aria-label="Form of the request">
          {(["chat", "tensors"] as const).map((each) => (
            <button key={each} type="button" class="toggle" aria-pressed={mode === each} onClick={() => setMode(each)}>
              {each === "chat" ? "Chat" : "Tensors"}
            </button>
          ))}
        </fieldset>
      )}
      {mode === "chat" ? (
        <Chat model={model.name} />
      ) : (
        <Tensors model={model.name} inputs={version?.inputs ?? []} isStream={version?.isDecoupled === true} />
      )}
    </>
  );
}
