/** A chat with a model of text: images, tools, a stream that one watches and can stop. */
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { type Api, headersOf, messageOf } from "../lib/api.ts";
import { useConsole } from "../lib/context.ts";
import { msText, shortNumber } from "../lib/format.ts";
import {
  type ChatAnswer,
  type ChatMessage,
  type ChatSettings,
  chatBody,
  FIRST_SETTINGS,
  NO_ANSWER,
  withPart,
} from "./chat-body.ts";
import { ChatSettingsForm } from "./chat-settings.tsx";
import { CodeSnippets } from "./code-snippets.tsx";
import { MessageForm } from "./message-form.tsx";
import { readEvents } from "./read-events.ts";
import { chatSnippets, type Snippets } from "./snippets.ts";

interface Speed {
  readonly firstMs: number;
  readonly totalMs: number;
  readonly tokens: number | undefined;
}

const MS_PER_S = 1000;

/** Calls back with each state of the answer. @throws ApiFailure @throws Error of the stream */
async function ask(
  api: Api,
  body: unknown,
  signal: AbortSignal,
  onAnswer: (answer: ChatAnswer) => void,
): Promise<Speed> {
  const startMs = performance.now();
  let firstMs = Number.NaN;
  let answer = NO_ANSWER;
  const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
  const response = await api.send("/v1/chat/completions", init);
  const take = (json: string): void => {
    answer = withPart(answer, json);
    if (Number.isNaN(firstMs) && answer.text + answer.reasoning + answer.calls !== "")
      firstMs = performance.now() - startMs;
    onAnswer(answer);
  };
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (isStream && response.body !== null) {
    for await (const data of readEvents(response.body)) if (data !== "[DONE]") take(data);
  } else {
    take(await response.text());
  }
  return { firstMs, totalMs: performance.now() - startMs, tokens: answer.tokens };
}

function snippetsOf(
  api: Api,
  model: string,
  settings: ChatSettings,
  messages: readonly ChatMessage[],
): { snippets?: Snippets; problem?: string } {
  try {
    const server = { url: location.origin, headers: headersOf(api.credentials) };
    return { snippets: chatSnippets(server, chatBody(model, settings, messages)) };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

function useChat(model: string, settings: ChatSettings) {
  const { api } = useConsole();
  const [messages, setMessages] = useState<readonly ChatMessage[]>([]);
  const [answer, setAnswer] = useState<ChatAnswer | undefined>(undefined);
  const [speed, setSpeed] = useState<Speed | undefined>(undefined);
  const [error, setError] = useState<string | undefined>(undefined);
  const running = useRef<AbortController | undefined>(undefined);
  const send = async (message: ChatMessage): Promise<void> => {
    const asked = [...messages, message];
    const stop = new AbortController();
    running.current = stop;
    let last = NO_ANSWER;
    setMessages(asked);
    setAnswer(NO_ANSWER);
    setSpeed(undefined);
    setError(undefined);
    try {
      const show = (next: ChatAnswer): void => {
        last = next;
        setAnswer(next);
      };
      setSpeed(await ask(api, chatBody(model, settings, asked), stop.signal, show));
    } catch (thrown) {
      if (!stop.signal.aborted) setError(messageOf(thrown));
    }
    if (last !== NO_ANSWER)
      setMessages([...asked, { role: "assistant", text: last.text, images: [], calls: last.calls }]);
    setAnswer(undefined);
  };
  const clear = (): void => {
    setMessages([]);
    setSpeed(undefined);
    setError(undefined);
  };
  return { api, messages, answer, speed, error, send, clear, stop: () => running.current?.abort() };
}

export function Chat({ model }: { readonly model: string }): JSX.Element {
  const [settings, setSettings] = useState(FIRST_SETTINGS);
  const [draft, setDraft] = useState<ChatMessage>({ role: "user", text: "", images: [] });
  const { api, messages, answer, speed, error, send, clear, stop } = useChat(model, settings);
  const shown = draft.text === "" && messages.length > 0 ? messages : [...messages, draft];
  const made = snippetsOf(api, model, settings, shown);
  return (
    <div class="split">
      <section class="card chat" aria-label={`Chat with ${model}`}>
        <Conversation messages={messages} answer={answer} />
        {error !== undefined && (
          <pre class="failure" role="alert">
            {error}
          </pre>
        )}
        {speed !== undefined && <p class="muted speed">{speedText(speed)}</p>}
        <MessageForm
          draft={draft}
          isBusy={answer !== undefined}
          canClear={messages.length > 0}
          onDraft={setDraft}
          onStop={stop}
          onClear={clear}
          onSend={() => {
            setDraft({ role: "user", text: "", images: [] });
            void send(draft);
          }}
        />
      </section>
      <div class="stack">
        <ChatSettingsForm settings={settings} onChange={setSettings} />
        <CodeSnippets snippets={made.snippets} problem={made.problem} />
      </div>
    </div>
  );
}

function speedText({ firstMs, totalMs, tokens }: Speed): string {
  const first = `First token after ${msText(firstMs)}, all after ${msText(totalMs)}`;
  if (tokens === undefined || tokens < 2) return first;
  return `${first}. ${tokens} tokens, ${shortNumber(((tokens - 1) * MS_PER_S) / (totalMs - firstMs))} per second`;
}

interface ConversationProps {
  readonly messages: readonly ChatMessage[];
  /** The answer that is on its way. */
  readonly answer: ChatAnswer | undefined;
}

function Conversation({ messages, answer }: ConversationProps): JSX.Element {
  if (messages.length === 0) return <p class="empty">Write to the model below.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1)
    <section class="conversation" aria-label="Conversation" tabIndex={0}>
      {messages.map(({ role, text, images, calls }, i) => (
        <div key={i} class={`message ${role}`}>
          <span class="role">{role}</span>
          {images.map((url) => (
            <img key={url} src={url} alt="Sent with the message" />
          ))}
          <p>{text}</p>
          {calls !== undefined && calls !== "" && <code>{calls}</code>}
        </div>
      ))}
      {answer !== undefined && (
        <div class="message assistant" aria-busy="true">
          <span class="role">assistant</span>
          {answer.reasoning !== "" && <p class="muted">{answer.reasoning}</p>}
          <p data-testid="answer">{answer.text}</p>
          {answer.calls !== "" && <code>{answer.calls}</code>}
        </div>
      )}
    </section>
  );
}
