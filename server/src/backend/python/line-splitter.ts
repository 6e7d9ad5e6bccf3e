/** The output of a process as lines: shared with the other backends that run models apart from the server. */
export { LineSplitter } from "../supervision/line-splitter.ts";
