// What @azure/service-bus documents about sending, receiving, settling, locks, sessions and filters.
// node messaging.mjs CONNECTION_STRING
import assert from "node:assert/strict";
import { ServiceBusClient } from "@azure/service-bus";
import { eventually, finish, none, pause, receive, step } from "./steps.mjs";

const options = { retryOptions: { maxRetries: 1, retryDelayInMs: 50, timeoutInMs: 3_000 } };
const client = new ServiceBusClient(process.argv[2], options);
const bodies = (messages) => messages.map((m) => m.body);
const deadLetter = { subQueueType: "deadLetter" };

await step("send and receive every property", async () => {
  const sent = {
    body: { name: "Albert", born: 1879, tags: ["a", null] },
    messageId: "m1", contentType: "application/json", correlationId: "c1", subject: "physicist", to: "to",
    replyTo: "replies", replyToSessionId: "rs", partitionKey: "p1", timeToLive: 60_000,
    applicationProperties: { text: "x", whole: 7, fraction: 1.5, yes: true, nothing: null },
  };
  const before = Date.now() - 5;
  await client.createSender("properties").sendMessages(sent);
  const receiver = client.createReceiver("properties");
  const [m] = await receive(receiver, 1);
  for (const [key, value] of Object.entries(sent)) assert.deepEqual(m[key], value, key);
  assert.equal(m.deliveryCount, 0);
  assert.equal(m.state, "active");
  assert.equal(m.sequenceNumber.toString(), "1");
  assert.match(m.lockToken, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  assert.ok(m.enqueuedTimeUtc.getTime() >= before && m.enqueuedTimeUtc.getTime() <= Date.now() + 5, "enqueuedTimeUtc");
  assert.ok(m.lockedUntilUtc.getTime() > Date.now() + 50_000, "lockedUntilUtc");
  assert.equal(m.expiresAtUtc.getTime(), m.enqueuedTimeUtc.getTime() + 60_000);
  await receiver.completeMessage(m);
});

await step("bodies of every kind", async () => {
  const sender = client.createSender("bodies");
  const sent = ["text", 42, 1.5, true, null, { a: { b: [1, 2] } }, [1, "two"]];
  for (const body of sent) await sender.sendMessages({ body });
  await sender.sendMessages({ body: Buffer.from([0, 255, 1]) });
  await sender.sendMessages({ body: "a value", bodyType: "value" });
  await sender.sendMessages({ body: [["x", 1], ["y", 2]], bodyType: "sequence" });
  await sender.sendMessages({ body: "annotated", bodyType: "value", messageAnnotations: { "x-opt-mine": "kept" } });
  const receiver = client.createReceiver("bodies", { receiveMode: "receiveAndDelete" });
  const got = await receive(receiver, sent.length + 4);
  assert.deepEqual(bodies(got.slice(0, sent.length)), sent);
  const [bytes, value, sequence, annotated] = got.slice(sent.length);
  assert.deepEqual([...bytes.body], [0, 255, 1]);
  assert.deepEqual([value.body, value._rawAmqpMessage.bodyType], ["a value", "value"]);
  assert.equal(sequence._rawAmqpMessage.bodyType, "sequence");
  assert.equal(annotated._rawAmqpMessage.messageAnnotations["x-opt-mine"], "kept");
});

await step("an array in one call, in order", async () => {
  const sent = Array.from({ length: 100 }, (_, i) => i);
  await client.createSender("array").sendMessages(sent.map((body) => ({ body })));
  const receiver = client.createReceiver("array", { receiveMode: "receiveAndDelete" });
  assert.deepEqual(bodies(await receive(receiver, 100)), sent);
});

await step("batches are filled until they are full", async () => {
  const sender = client.createSender("batch");
  const body = "x".repeat(10_000);
  let sent = 0;
  for (let round = 0; round < 2; round++) {
    const batch = await sender.createMessageBatch();
    assert.equal(batch.maxSizeInBytes, 256 * 1024);
    while (batch.tryAddMessage({ body, applicationProperties: { sent } })) sent++;
    assert.ok(batch.count > 20 && batch.sizeInBytes <= batch.maxSizeInBytes, `${batch.count}, ${batch.sizeInBytes}`);
    await sender.sendMessages(batch);
  }
  const small = await sender.createMessageBatch({ maxSizeInBytes: 2_000 });
  assert.equal(small.tryAddMessage({ body }), false);
  assert.equal(small.count, 0);
  const receiver = client.createReceiver("batch", { receiveMode: "receiveAndDelete" });
  const got = await receive(receiver, sent);
  assert.deepEqual(got.map((m) => m.applicationProperties.sent), Array.from({ length: sent }, (_, i) => i));
});

await step("what is too large is refused", async () => {
  const sender = client.createSender("large");
  const body = "x".repeat(200_000);
  await assert.rejects(sender.sendMessages([{ body }, { body }]), { code: "MessageSizeExceeded" });
  await assert.rejects(sender.sendMessages({ body: body + body }), { code: "MessageSizeExceeded" });
  await sender.sendMessages({ body }); // the sender goes on
  await receive(client.createReceiver("large", { receiveMode: "receiveAndDelete" }), 1);
});

await step("receive and delete", async () => {
  await client.createSender("delete").sendMessages([{ body: 1 }, { body: 2 }]);
  const receiver = client.createReceiver("delete", { receiveMode: "receiveAndDelete" });
  const got = await receive(receiver, 2);
  await assert.rejects(receiver.completeMessage(got[0]), /receiveAndDelete|peekLock/i);
  await receiver.close();
  await none(client.createReceiver("delete"));
});

await step("receiving waits no longer than it is told to", async () => {
  const startedAt = performance.now();
  await none(client.createReceiver("empty"), 500);
  const took = performance.now() - startedAt;
  assert.ok(took >= 450 && took < 3_000, `${took} ms`);
});

await step("complete", async () => {
  await client.createSender("complete").sendMessages({ body: "once" });
  const receiver = client.createReceiver("complete");
  const [m] = await receive(receiver, 1);
  await receiver.completeMessage(m);
  await assert.rejects(receiver.completeMessage(m), /already/);
  await receiver.close();
  await none(client.createReceiver("complete"));
});

await step("abandon, with properties", async () => {
  await client.createSender("abandon").sendMessages({ body: "again", applicationProperties: { kept: "yes" } });
  const receiver = client.createReceiver("abandon");
  let [m] = await receive(receiver, 1);
  await receiver.abandonMessage(m, { tried: 1 });
  [m] = await receive(receiver, 1);
  assert.equal(m.deliveryCount, 1);
  assert.deepEqual(m.applicationProperties, { kept: "yes", tried: 1 });
  await receiver.completeMessage(m);
});

await step("dead-letter with a reason, and read the dead-letter queue", async () => {
  await client.createSender("deadletter").sendMessages({ body: "poison", messageId: "p", applicationProperties: { kept: 1 } });
  const receiver = client.createReceiver("deadletter");
  const [m] = await receive(receiver, 1);
  await receiver.deadLetterMessage(m, { deadLetterReason: "Invalid", deadLetterErrorDescription: "no name", extra: "e" });
  const dead = client.createReceiver("deadletter", deadLetter);
  const [d] = await receive(dead, 1);
  assert.deepEqual([d.body, d.messageId, d.deadLetterReason, d.deadLetterErrorDescription], ["poison", "p", "Invalid", "no name"]);
  assert.equal(d.applicationProperties.kept, 1);
  assert.equal(d.applicationProperties.extra, "e");
  await dead.completeMessage(d);
  await none(receiver);
  await none(dead);
});

await step("a message delivered too often is dead-lettered", async () => {
  await client.createSender("exhausted").sendMessages({ body: "poison" }); // max delivery count 2
  const receiver = client.createReceiver("exhausted");
  for (const deliveryCount of [0, 1]) {
    const [m] = await receive(receiver, 1);
    assert.equal(m.deliveryCount, deliveryCount);
    await receiver.abandonMessage(m);
  }
  const dead = client.createReceiver("exhausted", deadLetter);
  const [d] = await receive(dead, 1);
  assert.equal(d.deadLetterReason, "MaxDeliveryCountExceeded");
  await dead.completeMessage(d);
  await none(receiver);
});

await step("a message that lived too long is dead-lettered", async () => {
  await client.createSender("expire").sendMessages({ body: "old", timeToLive: 50 });
  const [d] = await receive(client.createReceiver("expire", deadLetter), 1);
  assert.equal(d.deadLetterReason, "TTLExpiredException");
});

await step("renew a message's lock", async () => {
  await client.createSender("renew").sendMessages({ body: "slow" }); // lock duration 2 s
  const receiver = client.createReceiver("renew", { maxAutoLockRenewalDurationInMs: 0 });
  const [m] = await receive(receiver, 1);
  const first = m.lockedUntilUtc.getTime();
  for (let i = 0; i < 3; i++) {
    await pause(1_000);
    const until = await receiver.renewMessageLock(m);
    assert.ok(until.getTime() > first && until.getTime() === m.lockedUntilUtc.getTime(), `${until}`);
  }
  await receiver.completeMessage(m);
  await none(client.createReceiver("renew"));
});

await step("a lock that is renewed by the SDK", async () => {
  await client.createSender("renew").sendMessages({ body: "slow" });
  const receiver = client.createReceiver("renew");
  const [m] = await receive(receiver, 1);
  await pause(3_000);
  await receiver.completeMessage(m);
  await none(client.createReceiver("renew"));
});

await step("a lost lock", async () => {
  await client.createSender("lose").sendMessages({ body: "late" }); // lock duration 1 s
  const receiver = client.createReceiver("lose", { maxAutoLockRenewalDurationInMs: 0 });
  const [m] = await receive(receiver, 1);
  await pause(1_200);
  await assert.rejects(receiver.renewMessageLock(m), { code: "MessageLockLost" });
  await assert.rejects(receiver.completeMessage(m), { code: "MessageLockLost" });
  const [again] = await receive(receiver, 1);
  assert.equal(again.deliveryCount, 1);
  await receiver.completeMessage(again);
});

await step("peek", async () => {
  await client.createSender("peek").sendMessages([0, 1, 2, 3, 4].map((body) => ({ body })));
  const receiver = client.createReceiver("peek");
  const first = await receiver.peekMessages(2);
  assert.deepEqual(bodies(first), [0, 1]);
  assert.deepEqual(bodies(await receiver.peekMessages(10)), [2, 3, 4]); // it goes on where it was
  assert.deepEqual(bodies(await receiver.peekMessages(1, { fromSequenceNumber: first[1].sequenceNumber })), [1]);
  await assert.rejects(receiver.completeMessage(first[0]), /peeked/i);
  assert.deepEqual(bodies(await receive(receiver, 5)), [0, 1, 2, 3, 4]); // they were not locked
});

await step("subscribe: what is handled is completed, a failure is abandoned", async () => {
  const sender = client.createSender("subscribe");
  const receiver = client.createReceiver("subscribe");
  const handled = [];
  const failures = [];
  receiver.subscribe({
    processMessage: async (m) => {
      if (m.body === 3 && m.deliveryCount === 0) throw new Error("not now");
      handled.push(m.body);
    },
    processError: async (args) => { failures.push(args); },
  }, { maxConcurrentCalls: 4 });
  await sender.sendMessages([0, 1, 2, 3, 4].map((body) => ({ body })));
  await sender.sendMessages({ body: 5 });
  await eventually("all are handled", () => handled.length === 6);
  assert.deepEqual([...handled].sort(), [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(failures.map((f) => [f.errorSource, f.error.message, f.entityPath]), [["processMessageCallback", "not now", "subscribe"]]);
  await receiver.close();
  assert.ok(receiver.isClosed);
  await none(client.createReceiver("subscribe"));
});

await step("subscribe: settle in the handler, then stop", async () => {
  const sender = client.createSender("handler");
  const receiver = client.createReceiver("handler");
  const handled = [];
  const failures = [];
  const subscription = receiver.subscribe({
    processMessage: async (m) => {
      handled.push(m.body);
      await (m.body % 2 ? receiver.completeMessage(m) : receiver.deadLetterMessage(m));
    },
    processError: async (args) => { failures.push(args.error); },
  }, { autoCompleteMessages: false });
  for (let body = 0; body < 4; body++) await sender.sendMessages({ body });
  await eventually("all are handled", () => handled.length === 4);
  await subscription.close();
  await sender.sendMessages({ body: 5 });
  await pause(100);
  assert.deepEqual(handled, [0, 1, 2, 3]);
  assert.deepEqual(failures, []);
  const dead = client.createReceiver("handler", { ...deadLetter, receiveMode: "receiveAndDelete" });
  assert.deepEqual(bodies(await receive(dead, 2)), [0, 2]);
  const [left] = await receive(client.createReceiver("handler"), 1); // what came after the end was not lost
  assert.equal(left.body, 5);
});

await step("the iterator", async () => {
  await client.createSender("iterate").sendMessages([0, 1, 2].map((body) => ({ body })));
  const receiver = client.createReceiver("iterate");
  const got = [];
  for await (const m of receiver.getMessageIterator()) {
    got.push(m.body);
    await receiver.completeMessage(m);
    if (got.length === 3) break;
  }
  assert.deepEqual(got, [0, 1, 2]);
  await receiver.close();
});

await step("receivers compete", async () => {
  const other = new ServiceBusClient(process.argv[2], options);
  const got = [];
  const handlers = { processMessage: async (m) => { got.push(m.body); }, processError: async () => {} };
  client.createReceiver("compete").subscribe(handlers);
  other.createReceiver("compete").subscribe(handlers);
  const sent = Array.from({ length: 50 }, (_, i) => i);
  await client.createSender("compete").sendMessages(sent.map((body) => ({ body })));
  await eventually("all came", () => got.length >= 50);
  await other.close();
  assert.deepEqual(got.sort((a, b) => a - b), sent);
});

await step("correlation filters", async () => {
  await client.createSender("orders").sendMessages([
    { body: "plain" },
    { body: "red", applicationProperties: { colour: "red", size: 1 } },
    { body: "large red", applicationProperties: { colour: "red", size: 2 } },
    { body: "urgent", subject: "urgent" },
    { body: "urgent red", subject: "urgent", applicationProperties: { colour: "red" } },
    { body: "mine", to: "me", correlationId: "c" },
  ]);
  for (const [subscription, expected] of Object.entries({
    all: ["plain", "red", "large red", "urgent", "urgent red", "mine"],
    red: ["red", "large red", "urgent red"],
    largeRed: ["large red"],
    urgent: ["urgent", "urgent red"],
    mine: ["mine"],
    urgentOrMine: ["urgent", "urgent red", "mine"],
  })) {
    const receiver = client.createReceiver("orders", subscription, { receiveMode: "receiveAndDelete" });
    assert.deepEqual(bodies(await receive(receiver, expected.length)), expected, subscription);
    await none(receiver, 100);
  }
});

await step("what does not exist is not found", async () => {
  await assert.rejects(client.createSender("ghost").sendMessages({ body: 1 }), { code: "MessagingEntityNotFound" });
  await assert.rejects(client.createReceiver("ghost").receiveMessages(1), { code: "MessagingEntityNotFound" });
  await assert.rejects(client.createReceiver("orders", "ghost").peekMessages(1), { code: "MessagingEntityNotFound" });
});

await step("a session by its id, in order, renewed", async () => {
  const sender = client.createSender("sessions");
  await sender.sendMessages([0, 1, 2].map((body) => ({ body, sessionId: "a" })));
  await sender.sendMessages({ body: "other", sessionId: "b" });
  const receiver = await client.acceptSession("sessions", "a", { maxAutoLockRenewalDurationInMs: 0 });
  assert.equal(receiver.sessionId, "a");
  const first = receiver.sessionLockedUntilUtc.getTime();
  const got = await receive(receiver, 3);
  assert.deepEqual(got.map((m) => [m.body, m.sessionId]), [[0, "a"], [1, "a"], [2, "a"]]);
  await pause(20);
  const until = await receiver.renewSessionLock();
  assert.ok(until.getTime() > first, `${until}`);
  for (const m of got) await receiver.completeMessage(m);
  await none(receiver);
  await receiver.close();
});

await step("peek, abandon and dead-letter in a session", async () => {
  await client.createSender("session-settle").sendMessages([0, 1].map((body) => ({ body, sessionId: "a" })));
  const receiver = await client.acceptSession("session-settle", "a");
  assert.deepEqual(bodies(await receiver.peekMessages(5)), [0, 1]);
  const [m] = await receive(receiver, 1);
  await receiver.abandonMessage(m);
  const [again, next] = await receive(receiver, 2);
  assert.deepEqual([again.body, again.deliveryCount, next.body], [0, 1, 1]);
  await receiver.deadLetterMessage(again, { deadLetterReason: "Invalid" });
  await receiver.completeMessage(next);
  await receiver.close();
  const [d] = await receive(client.createReceiver("session-settle", deadLetter), 1);
  assert.deepEqual([d.body, d.sessionId, d.deadLetterReason], [0, "a", "Invalid"]);
});

await step("the next session, and none", async () => {
  await client.createSender("next").sendMessages({ body: 1, sessionId: "a" });
  await client.createSender("next").sendMessages({ body: 2, sessionId: "b" });
  const first = await client.acceptNextSession("next");
  const second = await client.acceptNextSession("next");
  assert.deepEqual([first.sessionId, second.sessionId].sort(), ["a", "b"]);
  const impatient = new ServiceBusClient(process.argv[2], { retryOptions: { maxRetries: 0, timeoutInMs: 1_000 } });
  await assert.rejects(impatient.acceptNextSession("next"), (e) => ["ServiceTimeout", "SessionCannotBeLocked"].includes(e.code));
  await impatient.close();
  await first.close();
  await second.close();
});

await step("a session has one holder", async () => {
  const receiver = await client.acceptSession("busy", "a");
  const other = new ServiceBusClient(process.argv[2], options);
  await assert.rejects(other.acceptSession("busy", "a"), { code: "SessionCannotBeLocked" });
  await receiver.close();
  await (await other.acceptSession("busy", "a")).close();
  await other.close();
});

await step("subscribe to a session", async () => {
  const receiver = await client.acceptSession("session-stream", "a");
  const got = [];
  const failures = [];
  receiver.subscribe({
    processMessage: async (m) => { got.push(m.body); },
    processError: async (args) => { failures.push(args.error); },
  });
  const sender = client.createSender("session-stream");
  for (let body = 0; body < 5; body++) await sender.sendMessages({ body, sessionId: "a" });
  await eventually("all came", () => got.length === 5);
  assert.deepEqual(got, [0, 1, 2, 3, 4]);
  assert.deepEqual(failures, []);
  await receiver.close();
});

await step("a session whose lock was lost", async () => {
  await client.createSender("session-lose").sendMessages({ body: 1, sessionId: "a" }); // lock duration 1 s
  const receiver = await client.acceptSession("session-lose", "a", { maxAutoLockRenewalDurationInMs: 0 });
  const [m] = await receive(receiver, 1);
  await pause(1_200);
  await assert.rejects(receiver.completeMessage(m), { code: "SessionLockLost" });
  const again = await client.acceptSession("session-lose", "a");
  const [second] = await receive(again, 1);
  assert.equal(second.deliveryCount, 1);
  await again.completeMessage(second);
  await again.close();
});

await finish(client);
