// The adapter for redis-semaphore's Semaphore, on one server. Its directory of packages comes first.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(`${process.argv[2]}/`);
const { Redis } = require("ioredis");
const { Semaphore, TimeoutError } = require("redis-semaphore");
const described = readFileSync(`${process.argv[2]}/node_modules/redis-semaphore/package.json`);
const { version } = JSON.parse(described);

const client = new Redis(process.argv[3]);
client.on("error", () => {});
await client.ping();
console.log(`ready redis-semaphore ${version}`);
let held;
let isLost;

async function answer(verb, words) {
  if (verb === "permit") {
    isLost = false;
    held = new Semaphore(client, words[0], Number(words[2]), {
      lockTimeout: Number(words[1]),
      acquireTimeout: 1,
      acquireAttemptsLimit: 1,
      refreshInterval: 0,
      onLockLost: () => {
        isLost = true;
      },
    });
    await held.acquire();
    return "granted";
  }
  if (verb === "held") {
    // What its holder can see without a question to the server.
    return held.isAcquired && !isLost ? "held" : "lost";
  }
  await held.release();
  return "released";
}

for await (const line of createInterface({ input: process.stdin })) {
  const [verb, ...words] = line.split(" ");
  try {
    console.log(await answer(verb, words));
  } catch (error) {
    console.log(error instanceof TimeoutError ? "refused it is held" : `refused ${error.name}`);
  }
}
process.exit(0);
