// Steps are run one after the other; each is reported to the Go test as one line of JSON.
import { inspect } from "node:util";

const patience = 20_000; // ms; nothing waits for it to pass

export function report(line) {
  process.stdout.write(JSON.stringify(line) + "\n");
}

let reported = 0;

// step runs one. A failure does not end the script: every step has entities of its own.
export async function step(name, run) {
  const startedAt = performance.now();
  let timer;
  let error;
  try {
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`it took longer than ${patience} ms`)), patience);
    });
    await Promise.race([run(), late]);
  } catch (e) {
    error = e instanceof Error ? `${e.code ?? ""} ${e.stack}`.trim() : inspect(e);
  } finally {
    clearTimeout(timer);
  }
  reported++;
  report({ step: name, ok: error === undefined, error, ms: Math.round(performance.now() - startedAt) });
}

// finish tells that the script came to its end, and ends it even if a failed step left something open.
export async function finish(...closing) {
  await Promise.race([Promise.allSettled(closing.map((c) => c.close())), pause(5_000)]);
  report({ done: true, steps: reported });
  process.exit(0);
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// receive gets exactly n messages.
export async function receive(receiver, n, maxWaitTimeInMs = 10_000) {
  const all = [];
  while (all.length < n) {
    const got = await receiver.receiveMessages(n - all.length, { maxWaitTimeInMs });
    if (got.length === 0) throw new Error(`only ${all.length} of ${n} messages came`);
    all.push(...got);
  }
  return all;
}

// none asserts that nothing comes.
export async function none(receiver, maxWaitTimeInMs = 300) {
  const got = await receiver.receiveMessages(1, { maxWaitTimeInMs });
  if (got.length > 0) throw new Error(`a message came: ${inspect(got[0].body)}`);
}

// eventually polls until a condition holds.
export async function eventually(what, holds) {
  for (const end = performance.now() + 10_000; !(await holds()); await pause(20)) {
    if (performance.now() > end) throw new Error(`${what} never came to hold`);
  }
}
