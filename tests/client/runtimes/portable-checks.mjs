/** Checks of the client that every runtime passes, browsers included. */

export async function portableChecks({ NereidClient, tensor, tensorValue, toFloat16, ClientError }, urls) {
  const client = new NereidClient({ url: urls.http });
  const done = [];
  const expect = (what, isTrue) => {
    if (!isTrue) throw new Error(`failed: ${what}`);
    done.push(what);
  };
  expect("health", (await client.isLive()) && (await client.isReady()) && !(await client.model("nope").isReady()));
  const ones = new Int32Array(16).fill(1);
  const inputs = { INPUT0: tensorValue("INT32", [1, 16], ones), INPUT1: tensorValue("INT32", [1, 16], ones) };
  const sums = await client.model("simple").infer({ inputs, id: "7" });
  expect("inference", sums.id === "7" && sums.output("OUTPUT0", "INT32").data.every((sum) => sum === 2));
  const texts = await client.model("id_bytes").infer({ inputs: [tensor("IN", "BYTES", [2], ["é", "😀"])] });
  expect("BYTES", texts.texts("OUT").join() === "é,😀");
  const halves = await client.model("id_fp16").infer({ inputs: [tensor("IN", "FP16", [2], toFloat16([0.5, -2]))] });
  expect("FP16", halves.floats("OUT").join() === "0.5,-2");
  const longs = [tensor("IN", "INT64", [1], BigInt64Array.of(-(2n ** 63n)))];
  const long = await client.model("id_int64").infer({ inputs: longs });
  expect("INT64", long.output("OUT", "INT64").data[0] === -(2n ** 63n));
  const large = new Float32Array(300_000).map((_, index) => index);
  const echo = await client.model("id_fp32").infer({ inputs: [tensor("IN", "FP32", [300_000], large)] });
  expect("large tensors", echo.output("OUT", "FP32").data[299_999] === 299_999);
  const zipped = await client
    .model("id_fp32")
    .infer({ inputs: [tensor("IN", "FP32", [300_000], large)], compression: "gzip", responseCompression: "gzip" });
  expect("compression", zipped.output("OUT", "FP32").data[299_999] === 299_999);
  const sequence = client.model("accumulate").sequence();
  const value = { inputs: [tensor("INPUT", "INT32", [1, 1], Int32Array.of(2))] };
  await sequence.infer(value);
  expect("sequences", (await sequence.end(value)).output("OUTPUT", "INT32").data[0] === 4);
  const wrong = await client
    .model("simple")
    .infer({ inputs: [], id: "9" })
    .catch((error) => error);
  expect("errors", wrong instanceof ClientError && wrong.status === 400 && wrong.requestId === "9");
  const slow = [tensor("INPUT0", "INT32", [1], Int32Array.of(1))];
  const late = await client
    .model("slow")
    .infer({ inputs: slow, timeoutMs: 50 })
    .catch((error) => error);
  expect("limits", late instanceof ClientError && late.kind === "timeout");
  const controller = new AbortController();
  const call = client.model("slow").infer({ inputs: slow, signal: controller.signal });
  controller.abort(new Error("enough"));
  expect("signals", (await call.catch((error) => error)).message === "enough");
  const parts = [];
  for await (const part of client.model("id_bytes").generateStream({ IN: "streamed" })) parts.push(part.OUT);
  expect("event streams", parts.join() === "streamed");
  expect("settings", (await client.settings.log()).log_info === true);
  expect(
    "repository",
    (await client.repository.index()).some(({ name }) => name === "simple"),
  );
  return done;
}
