/**
 * The budget of one rendering. Templates come with models, from anywhere: a loop must not hold the event loop, and
 * doubled strings must not fill the memory. Work on text counts by its length.
 */
import { MAX_RENDERED_CHARS, MAX_TEMPLATE_DEPTH, MAX_TEMPLATE_STEPS } from "../../core/limits.ts";
import { TemplateError } from "./template-error.ts";
import { type Dict, itemsOf, Namespace, type Value } from "./values.ts";

const CHARS_PER_STEP = 32;

export class Budget {
  #steps = 0;
  #depth = 0;

  /** @throws TemplateError when the steps are used up */
  spend(steps = 1): void {
    this.#steps += steps;
    if (this.#steps > MAX_TEMPLATE_STEPS) {
      throw new TemplateError(`the template takes more than ${MAX_TEMPLATE_STEPS} steps for these messages`);
    }
  }

  /** Returns the text after its length is paid for. @throws TemplateError when it is too long */
  text(text: string): string {
    this.chars(text.length);
    return text;
  }

  /** For text that is about to be made. */
  chars(length: number): void {
    if (length > MAX_RENDERED_CHARS) {
      throw new TemplateError(`the template makes a text of more than ${MAX_RENDERED_CHARS} characters`);
    }
    this.spend(length / CHARS_PER_STEP);
  }

  /** For work that may look at every part of a value, those of its parts included. */
  whole(value: Value): void {
    if (typeof value === "string") this.spend(1 + value.length / CHARS_PER_STEP);
    else if (value instanceof Map || value instanceof Namespace) this.#entries(value);
    else {
      this.spend();
      for (const item of itemsOf(value) ?? []) this.whole(item);
    }
  }

  /** For work that looks at each item of a value, and at none of their parts. */
  items(value: Value): void {
    if (typeof value === "string") this.chars(value.length);
    else this.spend(itemsOf(value)?.length ?? (value instanceof Map ? value.size : 1));
  }

  #entries(value: Dict | Namespace): void {
    this.spend();
    for (const [key, item] of value instanceof Map ? value : value.attributes) {
      this.whole(key);
      this.whole(item);
    }
  }

  /** Runs a macro. @throws TemplateError when macros call each other too deeply */
  nested<Result>(run: () => Result): Result {
    this.#depth += 1;
    if (this.#depth > MAX_TEMPLATE_DEPTH) {
      throw new TemplateError(`macros of the template call each other more than ${MAX_TEMPLATE_DEPTH} deep`);
    }
    try {
      return run();
    } finally {
      this.#depth -= 1;
    }
  }
}
