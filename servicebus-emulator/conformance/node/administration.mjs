// What @azure/service-bus documents about ServiceBusAdministrationClient, and that what it made is there to be used.
// node administration.mjs CONNECTION_STRING ADMINISTRATION_ADDRESS
import assert from "node:assert/strict";
import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";
import { eventually, finish, none, receive, step } from "./steps.mjs";

const [connectionString, address] = process.argv.slice(2);

// Up to and including 7.9.x the client knows https only, and hands on neither httpClient nor additionalPolicies. Its pipeline is
// public, and a policy in it brings requests to the emulator's plain http. (7.10.0-beta.2 does that by itself where the
// connection string says UseDevelopmentEmulator=true.)
const admin = new ServiceBusAdministrationClient(
  connectionString.replace(/Endpoint=sb:\/\/[^;]*/, `Endpoint=sb://${address}`), { retryOptions: { maxRetries: 0 } });
admin.pipeline.addPolicy({
  name: "plainHttp",
  sendRequest(request, next) {
    request.url = request.url.replace(/^https:/, "http:");
    request.allowInsecureConnection = true;
    return next(request);
  },
});
const client = new ServiceBusClient(connectionString, { retryOptions: { maxRetries: 1, retryDelayInMs: 50, timeoutInMs: 5_000 } });

async function names(listed) {
  const all = [];
  for await (const { name, subscriptionName, queueName } of listed) all.push(name ?? subscriptionName ?? queueName);
  return all;
}

await step("the namespace", async () => {
  const namespace = await admin.getNamespaceProperties();
  assert.ok(namespace.name && namespace.messagingSku, JSON.stringify(namespace));
});

await step("a queue: create, get, update, list, delete", async () => {
  const wanted = {
    lockDuration: "PT45S", maxDeliveryCount: 5, requiresSession: true, defaultMessageTimeToLive: "PT2H",
    deadLetteringOnMessageExpiration: true, userMetadata: "made by a test", maxSizeInMegabytes: 2048,
    autoDeleteOnIdle: "PT1H", requiresDuplicateDetection: true, duplicateDetectionHistoryTimeWindow: "PT1M",
  };
  assert.equal(await admin.queueExists("made"), false);
  const made = await admin.createQueue("made", wanted);
  const got = await admin.getQueue("made");
  for (const queue of [made, got]) {
    assert.equal(queue.name, "made");
    for (const [key, value] of Object.entries(wanted)) assert.deepEqual(queue[key], value, key);
    assert.equal(queue.status, "Active");
  }
  assert.equal(await admin.queueExists("made"), true);
  got.maxDeliveryCount = 7;
  got.lockDuration = "PT30S";
  const updated = await admin.updateQueue(got);
  assert.deepEqual([updated.maxDeliveryCount, updated.lockDuration], [7, "PT30S"]);
  assert.equal((await admin.getQueue("made")).maxDeliveryCount, 7);
  assert.ok((await names(admin.listQueues())).includes("made"));
  await admin.deleteQueue("made");
  assert.equal(await admin.queueExists("made"), false);
});

await step("lists come in pages", async () => {
  for (let i = 0; i < 5; i++) await admin.createQueue(`page-${i}`);
  const sizes = [];
  const all = [];
  for await (const page of admin.listQueues().byPage({ maxPageSize: 2 })) {
    sizes.push(page.length);
    all.push(...page.map((q) => q.name));
  }
  assert.ok(sizes.every((n) => n <= 2), `${sizes}`);
  assert.deepEqual(all.filter((n) => n.startsWith("page-")).sort(), [0, 1, 2, 3, 4].map((i) => `page-${i}`));
  for (let i = 0; i < 5; i++) await admin.deleteQueue(`page-${i}`);
});

await step("a queue that was made is there to be used, and counts", async () => {
  await admin.createQueue("used", { maxDeliveryCount: 1 });
  const sender = client.createSender("used");
  await sender.sendMessages([1, 2, 3].map((body) => ({ body })));
  const receiver = client.createReceiver("used");
  const [a, b] = await receive(receiver, 2);
  await receiver.completeMessage(a);
  await receiver.deadLetterMessage(b);
  await receiver.close();
  await sender.scheduleMessages({ body: 4 }, new Date(Date.now() + 3_600_000));
  await eventually("the counts are right", async () => {
    const q = await admin.getQueueRuntimeProperties("used");
    return q.activeMessageCount === 1 && q.deadLetterMessageCount === 1 && q.scheduledMessageCount === 1 && q.totalMessageCount === 3;
  });
  const q = await admin.getQueueRuntimeProperties("used");
  assert.ok(q.sizeInBytes > 0);
  assert.ok(Math.abs(q.createdAt.getTime() - Date.now()) < 60_000 && q.accessedAt && q.modifiedAt);
  await admin.deleteQueue("used");
  await sender.close().catch(() => {});
  await assert.rejects(client.createSender("used").sendMessages({ body: 1 }), { code: "MessagingEntityNotFound" });
});

await step("a topic and its subscription: create, get, update, list, delete", async () => {
  const topic = await admin.createTopic("news", { defaultMessageTimeToLive: "PT1H", userMetadata: "t" });
  assert.deepEqual([topic.name, topic.defaultMessageTimeToLive, topic.userMetadata], ["news", "PT1H", "t"]);
  topic.userMetadata = "changed";
  assert.equal((await admin.updateTopic(topic)).userMetadata, "changed");
  const wanted = { lockDuration: "PT20S", maxDeliveryCount: 3, requiresSession: true, deadLetteringOnFilterEvaluationExceptions: false };
  const made = await admin.createSubscription("news", "reader", wanted);
  assert.deepEqual([made.topicName, made.subscriptionName], ["news", "reader"]);
  const got = await admin.getSubscription("news", "reader");
  for (const [key, value] of Object.entries(wanted)) assert.deepEqual(got[key], value, key);
  got.maxDeliveryCount = 4;
  assert.equal((await admin.updateSubscription(got)).maxDeliveryCount, 4);
  assert.ok((await names(admin.listTopics())).includes("news"));
  assert.deepEqual(await names(admin.listSubscriptions("news")), ["reader"]);
  assert.equal((await admin.getTopicRuntimeProperties("news")).subscriptionCount, 1);
  assert.equal(await admin.subscriptionExists("news", "ghost"), false);
  await admin.deleteSubscription("news", "reader");
  assert.equal(await admin.subscriptionExists("news", "reader"), false);
  await admin.deleteTopic("news");
  assert.equal(await admin.topicExists("news"), false);
});

await step("rules: create, get, update, list, delete", async () => {
  await admin.createTopic("ruled");
  await admin.createSubscription("ruled", "s");
  assert.deepEqual(await names(admin.listRules("ruled", "s")), ["$Default"]);
  assert.equal((await admin.getRule("ruled", "s", "$Default")).filter.sqlExpression, "1=1");
  const sql = await admin.createRule("ruled", "s", "sql",
    { sqlExpression: "colour = @colour AND size > 1", sqlParameters: { "@colour": "red" } }, { sqlExpression: "SET seen = 'yes'" });
  assert.equal(sql.filter.sqlExpression, "colour = @colour AND size > 1");
  assert.deepEqual(sql.filter.sqlParameters, { "@colour": "red" });
  assert.equal(sql.action.sqlExpression, "SET seen = 'yes'");
  const filter = { subject: "urgent", to: "me", applicationProperties: { text: "x", whole: 7, fraction: 1.5, yes: true } };
  await admin.createRule("ruled", "s", "correlation", filter);
  const rule = await admin.getRule("ruled", "s", "correlation");
  for (const [key, value] of Object.entries(filter)) assert.deepEqual(rule.filter[key], value, key);
  rule.filter = { subject: "calm" };
  assert.equal((await admin.updateRule("ruled", "s", rule)).filter.subject, "calm");
  await admin.deleteRule("ruled", "s", "$Default");
  assert.equal(await admin.ruleExists("ruled", "s", "$Default"), false);
  assert.deepEqual((await names(admin.listRules("ruled", "s"))).sort(), ["correlation", "sql"]);
  await admin.deleteTopic("ruled");
});

await step("rules select, and their actions change the message", async () => {
  await admin.createTopic("filtered");
  const select = (sqlExpression) => ({
    defaultRuleOptions: { name: "red", filter: { sqlExpression }, action: { sqlExpression: "SET seen = 'yes'; REMOVE size" } },
  });
  await assert.rejects(admin.createSubscription("filtered", "red", select("colour = 'red' AND")), { statusCode: 400 });
  assert.equal(await admin.subscriptionExists("filtered", "red"), false); // what is refused leaves nothing behind
  await admin.createSubscription("filtered", "red", select("colour = 'red' AND size >= 2"));
  await admin.createSubscription("filtered", "urgent", { defaultRuleOptions: { name: "urgent", filter: { subject: "urgent" } } });
  await client.createSender("filtered").sendMessages([
    { body: "small", applicationProperties: { colour: "red", size: 1 } },
    { body: "large", applicationProperties: { colour: "red", size: 2 } },
    { body: "blue", applicationProperties: { colour: "blue", size: 3 }, subject: "urgent" },
  ]);
  const red = client.createReceiver("filtered", "red", { receiveMode: "receiveAndDelete" });
  const [m] = await receive(red, 1);
  assert.deepEqual([m.body, m.applicationProperties], ["large", { colour: "red", seen: "yes", RuleName: "red" }]);
  await none(red);
  const urgent = client.createReceiver("filtered", "urgent");
  const [u] = await receive(urgent, 1);
  assert.equal(u.body, "blue");
  const counts = await admin.getSubscriptionRuntimeProperties("filtered", "urgent");
  assert.deepEqual([counts.totalMessageCount, counts.activeMessageCount], [1, 1]);
  await urgent.completeMessage(u);
  await red.close();
  await urgent.close();
  await admin.deleteTopic("filtered");
});

await step("duplicates are detected", async () => {
  await admin.createQueue("once", { requiresDuplicateDetection: true, duplicateDetectionHistoryTimeWindow: "PT1M" });
  const sender = client.createSender("once");
  for (const messageId of ["a", "b", "a"]) await sender.sendMessages({ body: messageId, messageId });
  const receiver = client.createReceiver("once", { receiveMode: "receiveAndDelete" });
  assert.deepEqual((await receive(receiver, 2)).map((m) => m.body), ["a", "b"]);
  await none(receiver);
  await receiver.close();
  await admin.deleteQueue("once");
});

await step("a queue that forwards", async () => {
  await admin.createQueue("target");
  await admin.createQueue("source", { forwardTo: "target" });
  assert.match((await admin.getQueue("source")).forwardTo, /target$/);
  await client.createSender("source").sendMessages({ body: "through" });
  const [m] = await receive(client.createReceiver("target", { receiveMode: "receiveAndDelete" }), 1);
  assert.equal(m.body, "through");
  await admin.deleteQueue("source");
  await admin.deleteQueue("target");
});

await step("errors have their codes", async () => {
  await admin.createQueue("there");
  await assert.rejects(admin.createQueue("there"), { code: "MessageEntityAlreadyExistsError", statusCode: 409 });
  await admin.deleteQueue("there");
  await assert.rejects(admin.deleteQueue("there"), { code: "MessageEntityNotFoundError", statusCode: 404 });
  await assert.rejects(admin.getQueue("there"), { code: "MessageEntityNotFoundError" });
  await assert.rejects(admin.getSubscription("ghost", "s"), { code: "MessageEntityNotFoundError" });
  await assert.rejects(admin.createQueue("bad", { lockDuration: "PT10M" }), { statusCode: 400 });
  assert.equal(await admin.queueExists("bad"), false);
});

await finish(client);
