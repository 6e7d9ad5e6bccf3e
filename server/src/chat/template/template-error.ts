/** A template that cannot be parsed, breaks a rule, exceeds its budget, or raises an error of its own. */
export class TemplateError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "TemplateError";
  }
}
