/** Settings of a chat. Empty fields leave the choice to the model. */
import type { JSX } from "preact";
import type { ChatSettings } from "./chat-body.ts";

interface ChatSettingsFormProps {
  readonly settings: ChatSettings;
  readonly onChange: (settings: ChatSettings) => void;
}

export function ChatSettingsForm({ settings, onChange }: ChatSettingsFormProps): JSX.Element {
  const { system, temperature, maxTokens, tools, isStream } = settings;
  return (
    <details class="card settings">
      <summary>Settings: system message, sampling, tools</summary>
      <div class="stack">
        <label class="field">
          <span>System message</span>
          <textarea
            rows={2}
            value={system}
            onInput={({ currentTarget }) => onChange({ ...settings, system: currentTarget.value })}
          />
        </label>
        <div class="row">
          <label class="field">
            <span>Temperature</span>
            <input
              inputMode="decimal"
              value={temperature}
              placeholder="the model's"
              onInput={({ currentTarget }) => onChange({ ...settings, temperature: currentTarget.value })}
            />
          </label>
          <label class="field">
            <span>Most tokens</span>
            <input
              inputMode="numeric"
              value={maxTokens}
              placeholder="the model's"
              onInput={({ currentTarget }) => onChange({ ...settings, maxTokens: currentTarget.value })}
            />
          </label>
        </div>
        <label class="field">
          <span>Tools, as a JSON array</span>
          <textarea
            rows={4}
            class="json"
            spellcheck={false}
            value={tools}
            onInput={({ currentTarget }) => onChange({ ...settings, tools: currentTarget.value })}
          />
        </label>
        <label class="inline">
          <input
            type="checkbox"
            checked={isStream}
            onChange={({ currentTarget }) => onChange({ ...settings, isStream: currentTarget.checked })}
          />
          Stream the answer
        </label>
      </div>
    </details>
  );
}
