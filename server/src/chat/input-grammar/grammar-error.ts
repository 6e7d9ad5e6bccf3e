/** Says why a grammar of a custom tool is refused. The message names the construct and its line. Source: own design. */
export class GrammarError extends Error {}
