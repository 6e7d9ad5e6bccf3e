/** Program of a load generator's thread: drives its part of the load and reports at intervals. */
import { parentPort, workerData } from "node:worker_threads";
import { LoadDriver } from "./load-driver.ts";
import type { LoadCommand, ThreadPlan } from "./load-messages.ts";

const REPORT_INTERVAL_MS = 50;

if (parentPort === null) throw new Error("this program runs as a thread of the load generator");
const port = parentPort;
const driver = new LoadDriver(workerData as ThreadPlan);
const send = (): void => {
  const report = driver.report();
  port.postMessage(report, [report.exchanges.buffer as ArrayBuffer]);
};
const timer = setInterval(send, REPORT_INTERVAL_MS);
port.on("message", (command: LoadCommand) => {
  driver.obey(command);
  if (command.kind !== "stop") return;
  clearInterval(timer);
  port.close();
});
