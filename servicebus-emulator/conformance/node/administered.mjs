// What an administrator sets, and what then holds.
// Run by make conformance, which sets the environment.
import assert from "node:assert/strict";
import { finish, none, receive, step } from "./steps.mjs";
import { admin, administrate, connect, endpoint, fresh, queue, refused, subscription } from "./world.mjs";

const client = connect();
const send = async (name, with_ = client) => with_.createSender(name).sendMessages({ body: "x" });

await step("defaults are those of the service", async () => {
  const made = await admin.getQueue(await queue());
  assert.equal(made.maxSizeInMegabytes, 1024);
  assert.equal(made.lockDuration, "PT1M");
  assert.equal(made.maxDeliveryCount, 10);
  assert.equal(made.status, "Active");
});

await step("what is fixed at creation is refused by its name", async () => {
  const made = await admin.getQueue(await queue());
  const sessions = await refused(() => admin.updateQueue({ ...made, requiresSession: true }));
  assert.match(sessions.message, /The value for the RequiresSession property of an existing Queue cannot be changed/);
  const topic = await admin.getTopic(await subscription());
  const partitioned = await refused(() => admin.updateTopic({ ...topic, enablePartitioning: true }));
  assert.match(partitioned.message, /EnablePartitioning|[Pp]artition/);
});

await step("forwardTo needs an entity that exists, and comes back as https", async () => {
  assert.equal((await refused(() => queue({ forwardTo: "nowhere" }))).statusCode, 400);
  const target = await queue();
  const name = await queue({ forwardTo: target, forwardDeadLetteredMessagesTo: target });
  const made = await admin.getQueue(name);
  assert.equal(made.forwardTo, `https://${endpoint}/${target}`);
  await send(name);
  await receive(client.createReceiver(target), 1);
});

await step("SendDisabled refuses to send, and gives out what is there", async () => {
  const name = await queue();
  await send(name);
  await admin.updateQueue({ ...(await admin.getQueue(name)), status: "SendDisabled" });
  assert.equal((await admin.getQueue(name)).status, "SendDisabled");
  assert.equal((await refused(() => send(name))).code, "MessagingEntityDisabled");
  await receive(client.createReceiver(name), 1);
});

await step("ReceiveDisabled takes messages, and gives none out", async () => {
  const name = await queue({ status: "ReceiveDisabled" });
  await send(name);
  const e = await refused(() => client.createReceiver(name).receiveMessages(1, { maxWaitTimeInMs: 2_000 }));
  assert.equal(e.code, "MessagingEntityDisabled");
});

await step("Disabled does neither until it is Active", async () => {
  const name = await queue({ status: "Disabled" });
  assert.equal((await refused(() => send(name))).code, "MessagingEntityDisabled");
  assert.equal((await refused(() => client.createReceiver(name).receiveMessages(1, { maxWaitTimeInMs: 2_000 }))).code, "MessagingEntityDisabled");
  await admin.updateQueue({ ...(await admin.getQueue(name)), status: "Active" });
  const later = connect(); // links of the first client were refused
  await send(name, later);
  await receive(later.createReceiver(name), 1);
  await later.close();
});

await step("a topic and a subscription have a status too", async () => {
  const topic = await subscription({ status: "ReceiveDisabled" });
  await send(topic);
  assert.equal((await refused(() => client.createReceiver(topic, "s").receiveMessages(1, { maxWaitTimeInMs: 2_000 }))).code, "MessagingEntityDisabled");
  await admin.updateTopic({ ...(await admin.getTopic(topic)), status: "Disabled" });
  assert.equal((await refused(() => send(topic, connect()))).code, "MessagingEntityDisabled");
});

await step("authorization rules are kept, and open what they say", async () => {
  const rule = (keyName, accessRights) => ({
    claimType: "SharedAccessKey", claimValue: "None", accessRights, keyName,
    primaryKey: Buffer.from(`${keyName}-primary-made-up`.padEnd(32, "-")).toString("base64"),
    secondaryKey: Buffer.from(`${keyName}-secondary-made-up`.padEnd(32, "-")).toString("base64"),
  });
  const sends = rule("sends", ["Send"]), listens = rule("listens", ["Listen"]);
  const name = await queue({ authorizationRules: [sends, listens] });
  const kept = (await admin.getQueue(name)).authorizationRules;
  assert.deepEqual(kept.map(({ keyName, accessRights, primaryKey }) => [keyName, accessRights, primaryKey]),
    [sends, listens].map(({ keyName, accessRights, primaryKey }) => [keyName, accessRights, primaryKey]));
  const by = ({ keyName }, key) => connect(`Endpoint=sb://${endpoint}/;SharedAccessKeyName=${keyName};SharedAccessKey=${key}`);
  const sending = by(sends, sends.primaryKey), secondary = by(sends, sends.secondaryKey), listening = by(listens, listens.primaryKey);
  await send(name, sending);
  await send(name, secondary);
  await receive(listening.createReceiver(name), 2);
  assert.match((await refused(() => send(name, listening))).message, /'Send' claim/);
  assert.match((await refused(() => sending.createReceiver(name).receiveMessages(1, { maxWaitTimeInMs: 2_000 }))).message, /'Listen' claim/);
  await refused(async () => send(await queue(), sending));
  await Promise.all([sending, secondary, listening].map((c) => c.close()));
});

await step("names, durations and sizes beyond the service's are refused", async () => {
  const bad = [
    ["a name of 261 characters", "n".repeat(261), {}],
    ["a name with a space", "with space", {}],
    ["a lock of 1 s", fresh("queue"), { lockDuration: "PT1S" }],
    ["a lock of 6 min", fresh("queue"), { lockDuration: "PT6M" }],
    ["autoDeleteOnIdle of 1 min", fresh("queue"), { autoDeleteOnIdle: "PT1M" }],
    ["a history of 8 days", fresh("queue"), { requiresDuplicateDetection: true, duplicateDetectionHistoryTimeWindow: "P8D" }],
    ["no deliveries", fresh("queue"), { maxDeliveryCount: 0 }],
    ["a size of 3 MB", fresh("queue"), { maxSizeInMegabytes: 3 }],
  ];
  const taken = [];
  for (const [what, name, properties] of bad) {
    try {
      await admin.createQueue(name, properties);
      taken.push(what);
    } catch (e) {
      assert.equal(e.statusCode, 400, `${what}: ${e.message}`);
    }
  }
  assert.deepEqual(taken, []);
});

await step("who may not manage is told so", async () => {
  const without = administrate(process.env.SERVICEBUS_CONNECTION_STRING_NO_MANAGE);
  const name = await queue();
  const e = await refused(() => without.getQueue(name));
  assert.equal(e.statusCode, 401);
  assert.match(e.message, /Manage,EntityRead claims required for this operation/);
});

await finish(client);
