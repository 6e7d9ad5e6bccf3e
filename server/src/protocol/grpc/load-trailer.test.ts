import assert from "node:assert/strict";
import { test } from "node:test";
import type { LoadReports } from "../load-report-text.ts";
import { encode, frame, inferRequest, openSession, openTestBed, rawCall } from "./test-peer.test-support.ts";

test("trailers of inference tell the load to clients that ask, good answer or not", async () => {
  const counted: boolean[] = [];
  const load: LoadReports = {
    count: (isError) => void counted.push(isError),
    report: () => ({
      cpuUtilization: 0.5,
      memoryUtilization: 0.25,
      applicationUtilization: undefined,
      requestsPerSecond: 2,
      errorsPerSecond: 0,
      named: new Map(),
    }),
  };
  const bed = await openTestBed({}, load);
  const session = openSession(bed.port);
  const wanted = { "endpoint-load-metrics-format": "bin" };
  const good = frame(encode("inference.ModelInferRequest", inferRequest()));
  const bad = frame(encode("inference.ModelInferRequest", inferRequest({ model_name: "none" })));
  const answers = [
    await rawCall(session, wanted, good),
    await rawCall(session, wanted, bad),
    await rawCall(session, {}, good),
  ];
  const reports = answers.map(({ trailers }) => trailers["endpoint-load-metrics-bin"]?.toString());
  const bytes = Buffer.from(reports[0] ?? "", "base64");
  assert.deepEqual([bytes[0], bytes.readDoubleLE(1)], [0x09, 0.5]); // field 1, cpu_utilization
  assert.equal(reports[1], reports[0]);
  assert.equal(reports[2], undefined);
  assert.deepEqual(counted, [false, true, false]);
  session.destroy();
  await bed.close();
});
