// What counts as a delivery, and which messages are counted where.
// Run by make conformance, which sets the environment.
import assert from "node:assert/strict";
import { finish, none, receive, step } from "./steps.mjs";
import { admin, connect, queue } from "./world.mjs";

const client = connect();

// deferred sends a message, defers it, and gives a receiver and the message's number.
async function deferred(name) {
  await client.createSender(name).sendMessages({ body: "later" });
  const receiver = client.createReceiver(name);
  const [message] = await receive(receiver, 1);
  assert.equal(message.deliveryCount, 0);
  await receiver.deferMessage(message);
  const again = async () => (await receiver.receiveDeferredMessages(message.sequenceNumber))[0];
  return { receiver, again };
}

await step("deferring counts as a delivery, and so does abandoning what was deferred", async () => {
  const { receiver, again } = await deferred(await queue());
  let message = await again();
  assert.equal(message.deliveryCount, 1);
  await receiver.abandonMessage(message);
  message = await again();
  assert.equal(message.deliveryCount, 2);
  await receiver.completeMessage(message);
});

await step("a deferred message that is dead-lettered shows its deliveries", async () => {
  const name = await queue();
  const { receiver, again } = await deferred(name);
  await receiver.deadLetterMessage(await again());
  const [dead] = await receive(client.createReceiver(name, { subQueueType: "deadLetter" }), 1);
  assert.equal(dead.deliveryCount, 1);
});

await step("deferring at the maximum delivery count dead-letters", async () => {
  const name = await queue({ maxDeliveryCount: 1 });
  await deferred(name);
  const [dead] = await receive(client.createReceiver(name, { subQueueType: "deadLetter" }), 1);
  assert.equal(dead.deadLetterReason, "MaxDeliveryCountExceeded");
});

await step("the delivery count does not rise in a dead-letter queue", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages({ body: "x" });
  const receiver = client.createReceiver(name);
  const [message] = await receive(receiver, 1);
  await receiver.deadLetterMessage(message);
  const dead = client.createReceiver(name, { subQueueType: "deadLetter" });
  const [first] = await receive(dead, 1);
  for (let i = 0; i < 3; i++) {
    const [again] = i === 0 ? [first] : await receive(dead, 1);
    assert.equal(again.deliveryCount, first.deliveryCount);
    await dead.abandonMessage(again);
  }
});

await step("deferred messages are counted among the active", async () => {
  const name = await queue();
  const sender = client.createSender(name);
  await sender.sendMessages([{ body: 1 }, { body: 2 }, { body: 3 }]);
  await sender.scheduleMessages({ body: 4 }, new Date(Date.now() + 3_600_000));
  const receiver = client.createReceiver(name);
  const [first, second] = await receive(receiver, 2);
  await receiver.deadLetterMessage(first);
  await receiver.deferMessage(second);
  const counted = await admin.getQueueRuntimeProperties(name);
  assert.deepEqual(
    [counted.activeMessageCount, counted.scheduledMessageCount, counted.deadLetterMessageCount, counted.totalMessageCount], [2, 1, 1, 4]);
});

await step("what was never used was accessed at no time", async () => {
  const name = await queue();
  assert.ok((await admin.getQueueRuntimeProperties(name)).accessedAt.getTime() <= 0);
  await client.createSender(name).sendMessages({ body: "x" });
  assert.ok((await admin.getQueueRuntimeProperties(name)).accessedAt.getTime() > Date.now() - 60_000);
});

await step("what could not be forwarded has a dead-letter queue of its own", async () => {
  const name = await queue();
  await none(client.createReceiver(name, { subQueueType: "transferDeadLetter" }));
});

await finish(client);
