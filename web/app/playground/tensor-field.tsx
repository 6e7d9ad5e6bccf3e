/** One input of a model: its shape and its values, or a file. */
import type { JSX } from "preact";
import type { TensorDraft } from "./tensor-values.ts";

interface TensorFieldProps {
  readonly draft: TensorDraft;
  readonly onChange: (draft: TensorDraft) => void;
}

export function TensorField({ draft, onChange }: TensorFieldProps): JSX.Element {
  const { name, datatype, shape, values, isOptional, file } = draft;
  const takeFile = async (chosen: File | undefined): Promise<void> => {
    const { file: _, ...rest } = draft;
    if (chosen === undefined) return onChange(rest);
    onChange({ ...rest, file: { name: chosen.name, bytes: new Uint8Array(await chosen.arrayBuffer()) } });
  };
  return (
    <fieldset class="tensor">
      <legend>
        <code>{name}</code> <span class="muted">{`${datatype}${isOptional ? ", optional" : ""}`}</span>
      </legend>
      <label class="field">
        <span>Shape</span>
        <input value={shape} onInput={({ currentTarget }) => onChange({ ...draft, shape: currentTarget.value })} />
      </label>
      {file === undefined ? (
        <label class="field">
          <span>{datatype === "BYTES" ? "Texts, one a line" : "Values"}</span>
          <textarea
            rows={Math.min(6, Math.max(2, values.split("\n").length))}
            spellcheck={false}
            value={values}
            onInput={({ currentTarget }) => onChange({ ...draft, values: currentTarget.value })}
          />
        </label>
      ) : (
        <p class="row">
          <span>{file.name}</span>
          <button type="button" onClick={() => void takeFile(undefined)}>
            Use texts
          </button>
        </p>
      )}
      {datatype === "BYTES" && (
        <label class="field">
          <span>Contents of a file</span>
          <input type="file" onChange={({ currentTarget }) => void takeFile(currentTarget.files?.[0])} />
        </label>
      )}
    </fieldset>
  );
}
