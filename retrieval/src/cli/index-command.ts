/** `nereid index`: encodes texts or images into a collection for models of backend `retrieval`. */
import process from "node:process";
import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { parseServerFlags } from "@nereid/server/config/flags/parse-server-flags";
import { ServerError } from "@nereid/server/core/server-error";
import { ToolError } from "@nereid/server/files/tool-error";
import { MODELS_NOT_LOADED, type RunningServer, startServer } from "@nereid/server/main/start-server";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "@nereid/server/observe/log";
import { indexRecords } from "../indexing/index-records.ts";
import { modelEncoder } from "../indexing/model-encoder.ts";
import { collectionNameOf, readRecords } from "../indexing/read-records.ts";
import { expectCollectionName, openStores } from "../stores/open-store.ts";
import { METRICS, type Metric } from "../stores/vector-store.ts";

const FLAGS = {
  model: {
    type: "string",
    short: "m",
    value: "NAME",
    required: true,
    summary: "the encoder: one input of texts or images, one output of vectors",
  },
  model_repository: {
    type: "string",
    many: "repeated",
    value: "DIR",
    summary: "repositories of the encoder and the models that it calls",
  },
  input: {
    type: "string",
    short: "i",
    value: "PATH",
    required: true,
    summary: "lines of JSON, a .csv file, or a folder of images",
  },
  store: {
    type: "string",
    short: "s",
    value: "ADDRESS",
    required: true,
    summary: "pglite:DIR, memory:DIR, postgresql://…, mongodb://… or env:VARIABLE",
  },
  collection: {
    type: "string",
    short: "c",
    value: "NAME",
    summary: "collection for the records (default: the name of the input)",
  },
  documents: {
    type: "string",
    value: "ADDRESS",
    summary: "mongodb://… for the documents, if they are stored apart from the vectors",
  },
  metric: { type: "string", choices: METRICS, default: "cosine", summary: "metric of an approximate index" },
  approximate: {
    type: "switch",
    summary: "make an HNSW index, which finds nearly all of the nearest, for large collections",
  },
  id_field: { type: "string", default: "id", value: "NAME", summary: "member with the id of a record" },
  text_field: { type: "string", default: "text", value: "NAME", summary: "member with the text of a record" },
  image_field: { type: "string", value: "NAME", summary: "member with the path of an image, instead of a text" },
  output: { type: "string", value: "NAME", summary: "output with the vectors, if the model has several" },
  batch_size: { type: "integer", default: 32, min: 1, max: 1024, summary: "records of one call of the encoder" },
  parallel: { type: "integer", default: 2, min: 1, max: 64, summary: "batches in flight" },
  timeout_ms: { type: "integer", default: 60_000, min: 1, summary: "timeout of one statement in the store" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "index",
  description:
    "Encodes records and writes them into a collection, with all their members as the document. Unchanged records are skipped: run it again after an interruption or when the input has grown.",
  flags: FLAGS,
  examples: [
    "nereid index --model caption_encoder --model_repository repo --input captions.jsonl --store pglite:repo/store --collection captions",
    "nereid index --model image_encoder --model_repository repo --input images/ --store postgresql://user@host/db",
  ],
};

export async function indexCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, reporter, signal }) => {
    const collection = values.collection ?? collectionNameOf(values.input);
    const options = {
      ...{ folder: process.cwd(), maxConnections: values.parallel, timeoutMs: values.timeout_ms, retries: 3 },
      ...{ log: (message: string) => reporter.warn(message), env: process.env },
    };
    const store = await asToolErrors(() => {
      expectCollectionName(collection);
      return Promise.resolve(openStores(values.store, values.documents, options));
    });
    const server = await startEncoder(values.model, values.model_repository);
    try {
      const { numRecords, numWritten, dimensions } = await asToolErrors(() =>
        indexRecords({
          records: readRecords(values.input, {
            id: values.id_field,
            text: values.text_field,
            image: values.image_field,
          }),
          encoder: modelEncoder(server.server.model(values.model, ""), {
            batchSize: values.batch_size,
            output: values.output,
          }),
          ...{ store, collection, metric: values.metric as Metric, isApproximate: values.approximate },
          ...{ parallel: values.parallel, reporter, signal },
        }),
      );
      const unchanged = numRecords - numWritten;
      const text = `Collection '${collection}' in ${store.location}: ${numWritten} records written, ${unchanged} unchanged`;
      reporter.result(text, {
        collection,
        store: store.location,
        records: numRecords,
        written: numWritten,
        unchanged,
        dimensions,
      });
    } finally {
      await store.close();
      await server.stop();
    }
  });
}

/** A server without listeners, with the encoder and the models that it calls. */
async function startEncoder(model: string, repositories: readonly string[]): Promise<RunningServer> {
  if (repositories.length === 0) throw new UsageError("--model_repository is missing: the folder of the encoder");
  const flags = [
    ...repositories.map((folder) => `--model-repository=${folder}`),
    ...["--model-control-mode=explicit", `--load-model=${model}`, "--exit-on-error=true"],
    ...["http", "grpc", "metrics"].map((name) => `--allow-${name}=false`),
  ];
  const parsed = parseServerFlags(flags, {});
  if (parsed.kind === "usage") throw new UsageError(parsed.text);
  const quiet = { ...DEFAULT_LOG_SETTINGS, log_info: false, log_warning: false };
  const log = new ServerLog({ ...quiet, log_error: false }, { escape: true }); // the command reports the failure once
  const server = await asToolErrors(() => startServer(parsed.options, log));
  log.update({ log_error: true });
  return server;
}

/** ServerErrors are for the user to act on, too. */
async function asToolErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof ServerError ? new ToolError(reasonOf(error), { cause: error }) : error;
  }
}

function reasonOf({ message, cause }: ServerError): string {
  if (message !== MODELS_NOT_LOADED || !(cause instanceof AggregateError)) return message;
  return cause.errors.map((error: unknown) => ServerError.from(error).message).join("; ");
}
