// Locks of node-redlock, taken and given back as the lines of its input say; the last argument is
// its version, 4 or 5.
//
// acquire NAME[,NAME...] MILLISECONDS, extend MILLISECONDS, release; each is answered by one line.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// The packages are where they were installed, and not beside this file.
const require = createRequire(`${process.argv[2]}/`);
const { Redis } = require("ioredis");
const [url, version] = process.argv.slice(3);

const client = new Redis(url);
// One server is a quorum of one. A refusal is an answer here, and is not waited out.
const locks = version === "4" ? version4() : version5();

function version4() {
  const Redlock = require("redlock4");
  const redlock = new Redlock([client], { retryCount: 0 });
  return {
    acquire: (names, ttl) => redlock.lock(names, ttl),
    extend: (lock, ttl) => lock.extend(ttl),
    release: (lock) => lock.unlock(),
  };
}

function version5() {
  const { default: Redlock } = require("redlock");
  const redlock = new Redlock([client], { retryCount: 0 });
  return {
    acquire: (names, ttl) => redlock.acquire(names, ttl),
    extend: (lock, ttl) => lock.extend(ttl),
    release: (lock) => lock.release(),
  };
}

let held;

async function answer(verb, words) {
  switch (verb) {
    case "acquire":
      held = await locks.acquire(words[0].split(","), Number(words[1]));
      return "granted";
    case "extend":
      held = await locks.extend(held, Number(words[0]));
      return "extended";
    case "release":
      await locks.release(held);
      return "released";
    default:
      return `unknown: ${verb}`;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const [verb, ...words] = line.split(" ");
  try {
    console.log(await answer(verb, words));
  } catch (error) {
    // Both are told in the same way by this library: that there is no quorum.
    const isKnown = ["ExecutionError", "LockError"].includes(error.name);
    console.log(isKnown ? (verb === "acquire" ? "refused" : "lost") : String(error.stack));
  }
}
client.disconnect();
