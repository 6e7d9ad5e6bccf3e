export type { Datatype } from "@nereid/wire";
