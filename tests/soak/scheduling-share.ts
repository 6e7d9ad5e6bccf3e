/** A share of the random schedules, as a program of its own: first seed, how many, how many ms at most. Prints its figures. */
import process from "node:process";
import { checkSchedules } from "../scheduling/check-schedules.ts";

const [firstSeed = 0, count = 0, remainingMs = 0] = process.argv.slice(2).map(Number);
const figures = await checkSchedules({ firstSeed, count, deadlineMs: performance.now() + remainingMs });
process.stdout.write(JSON.stringify(figures));
