// A small agent: heartbeats, and two commands over Service Bus. README.md says how to run it.
import { createHash, randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { ServiceBusClient } from "@azure/service-bus";
import { Journal } from "./journal.mjs";
import { folded, sameName } from "./names.mjs";

const env = process.env;
const connectionString = env.SERVICEBUS_CONNECTION_STRING;
const name = env.AGENT_NAME ?? hostname();
const heartbeatEvery = Number(env.AGENT_HEARTBEAT_SECONDS ?? 30) * 1000;
const work = Number(env.AGENT_WORK_SECONDS ?? 0.05) * 1000; // ms that a restart takes, simulated
const renewEvery = 15_000; // ms; at most half of the subscription's lock duration
const startWithin = 2_500; // ms after its arrival; a message may have waited for all of its budget before, and the gateway grants 3 s
const promptly = 500; // ms after it was asked for; a message that took longer may have waited on its way, and may be over
const clockSlack = 250; // ms that two clocks may run apart between two renewals
const grace = 10_000; // ms for what runs when the agent is told to stop
const version = "node-example/1";
const bootId = randomUUID();
const log = (what, more = {}) => console.error(JSON.stringify({ at: new Date(), what, ...more }));

if (!connectionString || !(heartbeatEvery > 0) || !(work >= 0)) {
  console.error("SERVICEBUS_CONNECTION_STRING is required; AGENT_HEARTBEAT_SECONDS is a positive number, and AGENT_WORK_SECONDS one or 0");
  process.exit(2);
}
const journal = new Journal(env.AGENT_JOURNAL ?? "journal.jsonl");
const client = new ServiceBusClient(connectionString, { retryOptions: { maxRetries: 3, retryDelayInMs: 500, timeoutInMs: 10_000 } });
const senders = new Map();
const sender = (topic) => senders.get(topic) ?? senders.set(topic, client.createSender(topic)).get(topic);
const stopping = new AbortController();
const running = new Set(); // promises of commands under way

// The machine, simulated. A real agent asks Windows here.
const services = [
  { name: "W3SVC", displayName: "World Wide Web Publishing Service", status: "SERVICE_STATUS_RUNNING", startType: "SERVICE_START_TYPE_AUTOMATIC", pid: 4120 },
  { name: "Spooler", displayName: "Print Spooler", status: "SERVICE_STATUS_RUNNING", startType: "SERVICE_START_TYPE_AUTOMATIC", pid: 1876 },
  { name: "RemoteRegistry", displayName: "Remote Registry", status: "SERVICE_STATUS_STOPPED", startType: "SERVICE_START_TYPE_MANUAL", pid: 0 },
];

// What this agent knows, by the command's field. run answers the part of the result that tells what was read or done.
const operations = {
  listServices: {
    kind: "OPERATION_KIND_LIST_SERVICES", write: false, check: () => null,
    run: async () => ({ outcome: "OUTCOME_SUCCEEDED", services: { services } }),
  },
  getCommand: {
    kind: "OPERATION_KIND_GET_COMMAND", write: false,
    check: ({ commandId }) => (uuid.test(commandId) ? null : "getCommand.commandId: a UUID is required"),
    run: async ({ commandId }) => ({ outcome: "OUTCOME_SUCCEEDED", commandRecord: known(commandId) }),
  },
  restartService: {
    kind: "OPERATION_KIND_RESTART_SERVICE", write: true,
    check: ({ service }) => (typeof service === "string" && length(service) >= 1 && length(service) <= 256 ? null : "restartService.service: 1 to 256 characters are required"),
    run: async ({ service }) => {
      const found = services.find((s) => folded(s.name) === folded(service));
      if (!found) return { outcome: "OUTCOME_NOT_FOUND", message: `there is no service "${service}"` };
      const before = found.status === "SERVICE_STATUS_RUNNING" ? "running" : "stopped";
      await pause(work);
      Object.assign(found, { status: "SERVICE_STATUS_RUNNING", pid: 1000 + Math.floor(Math.random() * 9000) });
      return { outcome: "OUTCOME_SUCCEEDED", changes: { changes: [{ subject: `service ${found.name}`, before, after: "restarted, running" }] } };
    },
  },
};

// A moment on both clocks: a machine that sleeps stops the monotonic one, and the other may be set back.
const moment = () => ({ monotonic: performance.now(), wall: Date.now() });
const since = (then) => Math.max(performance.now() - then.monotonic, Date.now() - then.wall);

const length = (text) => [...text].length; // characters, as the contract counts them
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

// known is what the journal has about a command. What a read answered is left out: it is old by now.
function known(commandId) {
  const record = journal.get(commandId.toLowerCase());
  if (!record) return { commandId, state: "COMMAND_STATE_NEVER_RECEIVED" };
  const begun = { commandId, begunAt: new Date(record.at) };
  if (!record.result) return { ...begun, state: "COMMAND_STATE_BEGUN", running: Boolean(record.ended) };
  const { services, commandRecord, ...result } = record.result;
  return { ...begun, state: "COMMAND_STATE_FINISHED", result };
}

async function heartbeats() {
  for (let sequence = 1; !stopping.signal.aborted; sequence++) {
    const heartbeat = {
      name, hostname: hostname(), agentVersion: version, bootId, sequence: String(sequence), reportedAt: new Date(),
      capabilities: Object.values(operations).map((o) => o.kind),
    };
    try {
      await sender("agent-state").sendMessages({ body: heartbeat, contentType: "application/json" });
    } catch (error) {
      log("a heartbeat was not sent", { error: error.message }); // the next one tells more than this one again
    }
    await pause(heartbeatEvery * (0.9 + 0.2 * Math.random()), null, { signal: stopping.signal }).catch(() => {});
  }
}

// commands takes the session named as the agent, and takes it again whenever it is lost.
async function commands() {
  for (let failures = 0; !stopping.signal.aborted;) {
    let session;
    const opened = moment();
    try {
      session = await client.acceptSession("agent-commands", "agents", name, { maxAutoLockRenewalDurationInMs: 0, abortSignal: stopping.signal });
      log("commands are taken");
      const link = { session, seen: { at: opened, until: session.sessionLockedUntilUtc }, returned: undefined };
      for (let renewedAt = performance.now(); !stopping.signal.aborted;) {
        const wait = Math.max(1, renewEvery - (performance.now() - renewedAt));
        const askedAt = moment(); // a call that ends without a message takes its question back
        for (const message of await session.receiveMessages(1, { maxWaitTimeInMs: wait, abortSignal: stopping.signal })) {
          await take(link, message, askedAt);
        }
        if (performance.now() - renewedAt >= renewEvery) {
          await renew(link);
          renewedAt = performance.now();
        }
        failures = 0;
      }
    } catch (error) {
      if (!stopping.signal.aborted) log("the session of commands was lost; it is taken again", { error: error.message });
    }
    await soon(session?.close()).catch(() => {});
    const delay = Math.min(30_000, 250 * 2 ** failures++) * (0.5 + Math.random());
    await pause(delay, null, { signal: stopping.signal }).catch(() => {});
  }
}

// soon gives a call of the SDK as long as a command has to start: on a connection that broke, the SDK would try for most of a minute.
const soon = (call) => Promise.race([call, pause(startWithin, null, { ref: false }).then(() => {
  throw new Error(`the broker did not answer within ${startWithin} ms`);
})]);

// renew renews the session's lock, and gives the time that this machine's clocks did not count since the last renewal: the broker
// locks for a fixed time from its own now, so that the ends of two locks are as far apart as the renewals were by its clock.
async function renew(link) {
  const { seen } = link;
  const at = moment();
  const until = await soon(link.session.renewSessionLock());
  link.seen = { at, until };
  const missed = until - seen.until - since(seen.at);
  return missed > clockSlack ? missed : 0;
}

// giveBack has the broker decide: it delivers the message again only if its time to live is not over.
async function giveBack(link, message) {
  await soon(link.session.abandonMessage(message));
  link.returned = message.sequenceNumber?.toString(); // once only: the next one may be another
}

// take decides on a command and settles it; only then is it started, beside the receiving of the next. A command counts as arrived
// when it was asked for, since wherever it waited it was not yet on its way then.
async function take(link, message, receivedAt) {
  const { session } = link;
  const returned = link.returned !== undefined && link.returned === message.sequenceNumber?.toString();
  if (!returned && since(receivedAt) >= promptly) return giveBack(link, message);
  link.returned = undefined;
  const command = readable(message);
  if (!command) {
    await soon(session.deadLetterMessage(message, { deadLetterReason: "InvalidCommand", deadLetterErrorDescription: "the body is not a Command in JSON" }));
    return start(message, async () => refused("REFUSAL_REASON_INVALID", "the body is not a Command in JSON"));
  }
  const asked = Object.keys(operations).filter((field) => command[field] != null);
  const refusal = check(command, asked) ?? expired(command, receivedAt);
  if (refusal) {
    await soon(session.completeMessage(message));
    return start(message, async () => refusal);
  }
  const [field] = asked;
  const id = command.commandId.toLowerCase();
  const print = createHash("sha256").update(JSON.stringify([field, command[field]])).digest("hex");
  const seen = journal.get(id);
  if (seen) {
    await soon(session.completeMessage(message));
    return start(message, () => repeated(seen, print, command, receivedAt));
  }
  let record;
  try {
    record = journal.begin(id, print); // on disk from here on
  } catch (error) {
    await soon(session.completeMessage(message));
    return start(message, async () => refused("REFUSAL_REASON_JOURNAL_UNAVAILABLE", error.message));
  }
  try {
    const missed = await renew(link); // a virtual machine that was paused learns it from the broker alone
    if (missed && !returned) {
      journal.drop(record);
      return giveBack(link, message);
    }
    receivedAt = { monotonic: receivedAt.monotonic - missed, wall: receivedAt.wall - missed };
    await soon(session.completeMessage(message));
  } catch (error) {
    journal.drop(record); // not started, so that it may come again
    throw error;
  }
  start(message, () => execute(operations[field], command, command[field], record, receivedAt));
}

function readable(message) {
  const { body, contentType } = message;
  const json = !contentType || /^application\/json\s*(;|$)/i.test(contentType);
  return json && body !== null && typeof body === "object" && !Array.isArray(body) && !Buffer.isBuffer(body) ? body : undefined;
}

const refused = (refusalReason, why) => ({ outcome: "OUTCOME_REFUSED", refusalReason, message: `${why}; nothing was done` });

function check(command, asked) {
  const { commandId, targetAgent } = command;
  if (targetAgent && !sameName(String(targetAgent), name)) {
    return refused("REFUSAL_REASON_WRONG_AGENT", `targetAgent: the command is for "${targetAgent}", and this is "${name}"`);
  }
  const problem = !uuid.test(commandId) ? "commandId: a UUID is required"
    : !targetAgent ? "targetAgent: is required"
      : !(budgetOf(command) >= 100 && budgetOf(command) <= 3_600_000) ? "budget: 100 ms to 1 h are required"
        : asked.length !== 1 ? "operation: the command has none that this agent knows"
          : operations[asked[0]].check(command[asked[0]]);
  return problem ? refused("REFUSAL_REASON_INVALID", problem) : null;
}

// budgetOf reads a protobuf duration in JSON, "2.5s", as milliseconds.
const budgetOf = ({ budget }) => (/^\d+(\.\d{1,9})?s$/.test(budget) ? parseFloat(budget) * 1000 : NaN);

// expired looks at this machine's clocks only; issuedAt is another machine's.
function expired(command, receivedAt) {
  if (since(receivedAt) < Math.min(budgetOf(command), startWithin)) return null;
  return { outcome: "OUTCOME_EXPIRED", message: "budget: it was over, or its time to start was, before the command could be started; nothing was done" };
}

async function repeated(seen, print, command, receivedAt) {
  if (seen.print !== print) return refused("REFUSAL_REASON_INVALID", "commandId: this id was used for another command before");
  const left = budgetOf(command) - since(receivedAt);
  if (seen.ended) await Promise.race([seen.ended, pause(left, null, { ref: false })]); // this process runs it
  return seen.result ?? { outcome: "OUTCOME_REFUSED", refusalReason: "REFUSAL_REASON_ALREADY_BEGUN", message: "this command was begun before, and its outcome is not known; it is not run again" };
}

let writing; // the write that runs

async function execute(operation, command, argument, record, receivedAt) {
  const left = () => Math.min(2_000, budgetOf(command)) - since(receivedAt);
  while (operation.write && writing && left() > 0) {
    await Promise.race([writing, pause(left(), null, { ref: false })]);
  }
  // Another write is the cause, whatever time this one had, so it is named first.
  let refusal = operation.write && writing
    ? refused("REFUSAL_REASON_BUSY", `another write is running (command ${writing.commandId})`) : expired(command, receivedAt);
  if (!refusal && stopping.signal.aborted) refusal = refused("REFUSAL_REASON_DRAINING", "the agent is shutting down");
  if (refusal) {
    journal.drop(record);
    return refusal;
  }
  const run = perform(operation, argument);
  if (operation.write) {
    writing = run.finally(() => { writing = undefined; });
    writing.commandId = command.commandId;
  }
  const result = { commandId: command.commandId, agent: name, ...(await run) };
  try {
    journal.finish(record, result);
  } catch (error) {
    log("an outcome is not in the journal", { commandId: command.commandId, error: error.message });
  }
  return result;
}

async function perform(operation, argument) {
  const startedAt = new Date();
  const before = performance.now();
  const result = await operation.run(argument).catch((error) => ({ outcome: "OUTCOME_FAILED", message: error.message }));
  return { ...result, startedAt, finishedAt: new Date(), duration: `${((performance.now() - before) / 1000).toFixed(6)}s` };
}

// start has the answer made and sent. The reply may be sent again: whoever waits takes the first.
function start(message, answer) {
  const work = (async () => {
    const result = { commandId: String(message.messageId), agent: name, ...(await answer()) };
    log("command", { commandId: result.commandId, outcome: result.outcome, refusal: result.refusalReason, message: result.message });
    await sender(message.replyTo || "agent-replies").sendMessages({
      body: result, contentType: "application/json", correlationId: message.messageId, sessionId: message.replyToSessionId, timeToLive: 300_000,
    });
  })().catch((error) => log("a command was not answered", { commandId: message.messageId, error: error.message }));
  running.add(work);
  work.finally(() => running.delete(work));
}

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stopping.abort());
log("started", { name, bootId });
const told = new Promise((resolve) => stopping.signal.addEventListener("abort", resolve, { once: true }));
// A call of the SDK under way can outlast its connection by most of a minute; nothing is started any more.
await Promise.race([Promise.all([heartbeats(), commands()]), told.then(() => pause(grace, null, { ref: false }))]);
await Promise.race([Promise.all(running), pause(grace, null, { ref: false })]);
await Promise.race([client.close(), pause(3_000, null, { ref: false })]);
log("stopped");
process.exit(0);
