/** What a person writes: a text, and images. Enter sends, Shift and Enter makes a new line. */
import type { JSX } from "preact";
import type { ChatMessage } from "./chat-body.ts";

interface MessageFormProps {
  readonly draft: ChatMessage;
  readonly isBusy: boolean;
  readonly canClear: boolean;
  readonly onDraft: (draft: ChatMessage) => void;
  readonly onSend: () => void;
  readonly onStop: () => void;
  readonly onClear: () => void;
}

export function MessageForm({
  draft,
  isBusy,
  canClear,
  onDraft,
  onSend,
  onStop,
  onClear,
}: MessageFormProps): JSX.Element {
  const canSend = !isBusy && (draft.text.trim() !== "" || draft.images.length > 0);
  const submit = (event: Event): void => {
    event.preventDefault();
    if (canSend) onSend();
  };
  const addImages = async (files: FileList | null): Promise<void> => {
    const images = await Promise.all([...(files ?? [])].map(dataUrl));
    onDraft({ ...draft, images: [...draft.images, ...images] });
  };
  return (
    <form class="message-form" onSubmit={submit}>
      <textarea
        rows={3}
        aria-label="Message"
        placeholder="Message"
        value={draft.text}
        onInput={({ currentTarget }) => onDraft({ ...draft, text: currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
        }}
      />
      <div class="row spread">
        <div class="row">
          <label class="button">
            Add images
            <input
              type="file"
              accept="image/*"
              multiple
              class="hidden"
              onChange={({ currentTarget }) => void addImages(currentTarget.files)}
            />
          </label>
          {draft.images.length > 0 && (
            <button type="button" onClick={() => onDraft({ ...draft, images: [] })}>
              Remove {draft.images.length}
            </button>
          )}
        </div>
        <div class="row">
          {canClear && !isBusy && (
            <button type="button" onClick={onClear}>
              New chat
            </button>
          )}
          {isBusy ? (
            <button type="button" class="primary" onClick={onStop}>
              Stop
            </button>
          ) : (
            <button type="submit" class="primary" disabled={!canSend}>
              Send
            </button>
          )}
        </div>
      </div>
    </form>
  );
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
