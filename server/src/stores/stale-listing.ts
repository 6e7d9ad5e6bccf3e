/** The store has moved on since it was listed: list it again, then ask again. */
import { ToolError } from "../offline/tool-error.ts";

export class StaleListing extends ToolError {
  constructor(message: string) {
    super(message);
    this.name = "StaleListing";
  }
}
