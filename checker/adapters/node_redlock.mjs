// The adapter for node-redlock 5, on one server or several. Its directory of packages comes first.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(`${process.argv[2]}/`);
const { Redis } = require("ioredis");
const { default: Redlock } = require("redlock");
const described = readFileSync(`${process.argv[2]}/node_modules/redlock/package.json`);
const { version } = JSON.parse(described);

const clients = process.argv.slice(3).map((url) => new Redis(url));
clients.forEach((client) => client.on("error", () => {}));
const redlock = new Redlock(clients, { retryCount: 0, automaticExtensionThreshold: 0 });
redlock.on("error", () => {});
await Promise.all(clients.map((client) => client.ping()));
console.log(`ready node-redlock ${version}`);
let held;

async function answer(verb, words) {
  if (verb === "acquire") {
    held = await redlock.acquire([words[0]], Number(words[1]));
    return "granted";
  }
  if (verb === "held") {
    // What its lock has for its holder: the end, by the wall clock.
    const left = held.expiration - Date.now();
    return left > 0 ? `held ${left}` : "lost";
  }
  await held.release();
  return "released";
}

for await (const line of createInterface({ input: process.stdin })) {
  const [verb, ...words] = line.split(" ");
  try {
    console.log(await answer(verb, words));
  } catch (error) {
    console.log(`refused ${error.name}`);
  }
}
process.exit(0);
