// deleteMessages and purgeMessages, which newer releases of the SDK have.
// Run by make conformance, which sets the environment.
import assert from "node:assert/strict";
import { ServiceBusClient } from "service-bus-next";
import { finish, receive, step } from "./steps.mjs";
import { admin, connect, connection, connectionString, queue, subscription } from "./world.mjs";

const client = new ServiceBusClient(connectionString, connection);
const older = connect(); // for what both can do
const many = (n, more = {}) => Array.from({ length: n }, (_, i) => ({ body: i, ...more }));

await step("deleteMessages deletes up to so many, the oldest first", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages(many(10));
  const receiver = client.createReceiver(name);
  assert.equal(await receiver.deleteMessages({ maxMessageCount: 4 }), 4);
  assert.equal((await admin.getQueueRuntimeProperties(name)).activeMessageCount, 6);
  const [next] = await receive(receiver, 1);
  assert.equal(next.body, 4);
});

await step("deleteMessages keeps what was enqueued later", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages(many(3));
  const receiver = client.createReceiver(name);
  assert.equal(await receiver.deleteMessages({ maxMessageCount: 10, beforeEnqueueTime: new Date(Date.now() - 3_600_000) }), 0);
  assert.equal(await receiver.deleteMessages({ maxMessageCount: 10, beforeEnqueueTime: new Date(Date.now() + 3_600_000) }), 3);
});

await step("purgeMessages deletes all but what is locked", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages(many(10));
  const [locked] = await receive(older.createReceiver(name), 1);
  assert.equal(await client.createReceiver(name).purgeMessages({ beforeEnqueueTime: new Date(Date.now() + 60_000) }), 9);
  const [left] = await client.createReceiver(name).peekMessages(10, { fromSequenceNumber: locked.sequenceNumber });
  assert.equal(left.body, locked.body);
});

await step("a subscription and a dead-letter queue are purged", async () => {
  const topic = await subscription({ maxDeliveryCount: 1 });
  await client.createSender(topic).sendMessages(many(3));
  const receiver = client.createReceiver(topic, "s");
  for (const message of await receive(receiver, 2)) await receiver.deadLetterMessage(message);
  const later = { beforeEnqueueTime: new Date(Date.now() + 60_000) };
  assert.equal(await receiver.purgeMessages(later), 1);
  assert.equal(await client.createReceiver(topic, "s", { subQueueType: "deadLetter" }).purgeMessages(later), 2);
});

await finish(client, older);
