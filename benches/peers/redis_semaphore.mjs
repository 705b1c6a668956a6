// Takes permits of redis-semaphore's Semaphore, 64 at a time. Its directory of packages comes first.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(`${process.argv[2]}/`);
const { Redis } = require("ioredis");
const { Semaphore } = require("redis-semaphore");

const TASKS = 64;
// One for all: a permit with a shorter one would end those of the others.
const options = { lockTimeout: 3_600_000, acquireAttemptsLimit: 1, refreshInterval: 0 };
const client = new Redis(process.argv[3]);
await client.ping();

async function take(count, stays) {
  for (let done = 0; done < count; done += 1) {
    const permit = new Semaphore(client, "name", 1_000_000, options);
    await permit.acquire();
    if (!stays) await permit.release();
  }
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [verb, count] = line.split(" ");
  const times = (task) => Math.floor((Number(count) + task) / TASKS);
  await Promise.all(Array.from({ length: TASKS }, (_, task) => take(times(task), verb === "stay")));
  console.log("done");
}
