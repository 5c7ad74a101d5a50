// What @azure/service-bus documents about deferred and scheduled messages and the state of sessions.
// node deferred.mjs CONNECTION_STRING
import assert from "node:assert/strict";
import Long from "long";
import { ServiceBusClient } from "@azure/service-bus";
import { finish, none, receive, step } from "./steps.mjs";

const client = new ServiceBusClient(process.argv[2], { retryOptions: { maxRetries: 1, retryDelayInMs: 50, timeoutInMs: 5_000 } });
const bodies = (messages) => messages.map((m) => m.body);
const soon = (ms) => new Date(Date.now() + ms);

await step("defer, and receive by sequence number", async () => {
  await client.createSender("defer").sendMessages([{ body: "later", applicationProperties: { kept: 1 } }, { body: "now" }]);
  const receiver = client.createReceiver("defer");
  const [later, now] = await receive(receiver, 2);
  await receiver.deferMessage(later, { step: 2 });
  await receiver.completeMessage(now);
  await none(receiver); // only who knows its number gets it
  const [peeked] = await receiver.peekMessages(1);
  assert.equal(peeked.state, "deferred");
  const [m] = await receiver.receiveDeferredMessages(later.sequenceNumber);
  assert.equal(m.body, "later");
  assert.deepEqual(m.applicationProperties, { kept: 1, step: 2 });
  assert.ok(m.sequenceNumber.equals(later.sequenceNumber));
  assert.ok(m.lockedUntilUtc.getTime() > Date.now());
  assert.ok((await receiver.renewMessageLock(m)).getTime() > Date.now());
  await receiver.completeMessage(m);
  assert.deepEqual(await receiver.peekMessages(1), []);
});

await step("several deferred messages in one call, settled in every way", async () => {
  const sent = ["complete", "abandon", "defer", "deadletter"];
  await client.createSender("defer").sendMessages(sent.map((body) => ({ body })));
  const receiver = client.createReceiver("defer");
  const numbers = [];
  for (const m of await receive(receiver, 4)) {
    numbers.push(m.sequenceNumber);
    await receiver.deferMessage(m);
  }
  const got = await receiver.receiveDeferredMessages(numbers);
  assert.deepEqual(bodies(got).sort(), [...sent].sort());
  const find = (body) => got.find((m) => m.body === body);
  await receiver.completeMessage(find("complete"));
  await receiver.abandonMessage(find("abandon"));
  await receiver.deferMessage(find("defer"));
  await receiver.deadLetterMessage(find("deadletter"), { deadLetterReason: "Invalid" });
  await none(receiver);
  const left = await receiver.receiveDeferredMessages([find("abandon").sequenceNumber, find("defer").sequenceNumber]);
  assert.deepEqual(bodies(left).sort(), ["abandon", "defer"]); // both are deferred still
  for (const m of left) await receiver.completeMessage(m);
  const dead = client.createReceiver("defer", { subQueueType: "deadLetter" });
  const [d] = await receive(dead, 1);
  assert.deepEqual([d.body, d.deadLetterReason], ["deadletter", "Invalid"]);
  await dead.completeMessage(d);
});

await step("what is not deferred can't be received by number", async () => {
  const receiver = client.createReceiver("defer");
  await assert.rejects(receiver.receiveDeferredMessages(Long.fromNumber(4711)), { code: "MessageNotFound" });
});

await step("schedule", async () => {
  const sender = client.createSender("schedule");
  const at = soon(1_500);
  const numbers = await sender.scheduleMessages([{ body: 1 }, { body: 2 }], at);
  assert.equal(numbers.length, 2);
  assert.ok(numbers.every((n) => Long.isLong(n)) && !numbers[0].equals(numbers[1]));
  await sender.sendMessages({ body: 0 });
  const receiver = client.createReceiver("schedule");
  const [first] = await receive(receiver, 1);
  assert.equal(first.body, 0);
  await receiver.completeMessage(first);
  const peeked = await receiver.peekMessages(5, { fromSequenceNumber: Long.ONE });
  assert.deepEqual(peeked.map((m) => [m.body, m.state]), [[1, "scheduled"], [2, "scheduled"]]);
  assert.ok(Math.abs(peeked[0].scheduledEnqueueTimeUtc.getTime() - at.getTime()) < 5, `${peeked[0].scheduledEnqueueTimeUtc}`);
  const got = await receive(receiver, 2);
  assert.ok(Date.now() >= at.getTime() - 5, "it came early");
  assert.deepEqual(bodies(got), [1, 2]);
  for (const m of got) {
    assert.ok(m.enqueuedTimeUtc.getTime() >= at.getTime() - 5, "its time is when it came into the queue");
    await receiver.completeMessage(m);
  }
});

await step("a message sent with its time", async () => {
  const at = soon(700);
  await client.createSender("schedule").sendMessages({ body: "late", scheduledEnqueueTimeUtc: at });
  const receiver = client.createReceiver("schedule");
  await none(receiver, 200);
  const [m] = await receive(receiver, 1);
  assert.ok(Date.now() >= at.getTime() - 5, "it came early");
  await receiver.completeMessage(m);
});

await step("cancel", async () => {
  const sender = client.createSender("cancel");
  const numbers = await sender.scheduleMessages([{ body: 1 }, { body: 2 }, { body: 3 }], soon(700));
  await sender.cancelScheduledMessages(numbers[0]);
  await sender.cancelScheduledMessages([numbers[2]]);
  const receiver = client.createReceiver("cancel");
  assert.deepEqual(bodies(await receiver.peekMessages(5)), [2]);
  const [m] = await receive(receiver, 1);
  assert.equal(m.body, 2);
  await receiver.completeMessage(m);
  await none(receiver, 300);
  await assert.rejects(sender.cancelScheduledMessages(numbers[0]), { code: "MessageNotFound" });
});

await step("schedule to a topic", async () => {
  const sender = client.createSender("later");
  const numbers = await sender.scheduleMessages([{ body: "kept" }, { body: "cancelled" }], soon(500));
  await sender.cancelScheduledMessages(numbers[1]);
  const receiver = client.createReceiver("later", "s");
  const [m] = await receive(receiver, 1);
  assert.equal(m.body, "kept");
  await receiver.completeMessage(m);
  await none(receiver);
});

await step("the state of a session", async () => {
  let receiver = await client.acceptSession("session-state", "a");
  assert.equal(await receiver.getSessionState() ?? null, null);
  await receiver.setSessionState({ step: 1, done: ["a"] });
  assert.deepEqual(await receiver.getSessionState(), { step: 1, done: ["a"] });
  await receiver.setSessionState("text");
  await receiver.close();
  receiver = await client.acceptSession("session-state", "a"); // it outlives its holder
  assert.equal(await receiver.getSessionState(), "text");
  const other = await client.acceptSession("session-state", "b");
  assert.equal(await other.getSessionState() ?? null, null);
  await other.close();
  await receiver.setSessionState(null);
  assert.equal(await receiver.getSessionState() ?? null, null);
  await receiver.close();
});

await step("defer in a session", async () => {
  await client.createSender("session-defer").sendMessages([0, 1].map((body) => ({ body, sessionId: "a" })));
  let receiver = await client.acceptSession("session-defer", "a");
  const [first, second] = await receive(receiver, 2);
  await receiver.deferMessage(first);
  await receiver.completeMessage(second);
  await receiver.setSessionState({ deferred: first.sequenceNumber.toString() });
  await receiver.close();
  receiver = await client.acceptSession("session-defer", "a");
  const { deferred } = await receiver.getSessionState();
  const [m] = await receiver.receiveDeferredMessages(Long.fromString(deferred));
  assert.deepEqual([m.body, m.sessionId], [0, "a"]);
  await receiver.completeMessage(m);
  assert.deepEqual(await receiver.peekMessages(1), []);
  await receiver.close();
});

await step("schedule to a session", async () => {
  await client.createSender("session-schedule").scheduleMessages({ body: "late", sessionId: "a" }, soon(500));
  const receiver = await client.acceptSession("session-schedule", "a");
  const [m] = await receive(receiver, 1);
  assert.deepEqual([m.body, m.sessionId], ["late", "a"]);
  await receiver.completeMessage(m);
  await receiver.close();
});

await finish(client);
