/** Asks for the API key, and for the header of restricted APIs. They stay in this tab. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Credentials, NO_CREDENTIALS } from "../lib/api.ts";

interface AccessDialogProps {
  readonly credentials: Credentials;
  readonly onSave: (credentials: Credentials) => void;
  readonly onClose: () => void;
}

const FIELDS: readonly (readonly [keyof Credentials, string, string, "text" | "password"])[] = [
  ["key", "API key", "Sent as a bearer token, where the server has --api-key-file", "password"],
  ["headerName", "Header", "As --http-restricted-api names it", "text"],
  ["headerValue", "Value of the header", "", "password"],
];

export function AccessDialog({ credentials, onSave, onClose }: AccessDialogProps): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [draft, setDraft] = useState(credentials);
  useEffect(() => dialog.current?.showModal(), []);
  const save = (event: Event): void => {
    event.preventDefault();
    onSave(draft);
    onClose();
  };
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="access-title">
      <form onSubmit={save} class="stack">
        <h2 id="access-title">Access</h2>
        <p class="muted">Kept in this tab until it is closed.</p>
        {FIELDS.map(([name, label, hint, type]) => (
          <label key={name} class="field">
            <span>{label}</span>
            <input
              type={type as "text"}
              autocomplete="off"
              value={draft[name]}
              onInput={({ currentTarget }) => setDraft({ ...draft, [name]: currentTarget.value })}
            />
            {hint !== "" && <small class="muted">{hint}</small>}
          </label>
        ))}
        <div class="row end">
          <button type="button" onClick={() => setDraft(NO_CREDENTIALS)}>
            Clear
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Use
          </button>
        </div>
      </form>
    </dialog>
  );
}
