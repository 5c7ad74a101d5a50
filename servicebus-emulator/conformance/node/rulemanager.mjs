// What @azure/service-bus documents about ServiceBusRuleManager.
// Run by make conformance, which sets the environment.
import assert from "node:assert/strict";
import { finish, none, receive, step } from "./steps.mjs";
import { admin, connect, refused, subscription } from "./world.mjs";

const client = connect();

async function rules(manager) {
  const all = [];
  for await (const rule of manager.listRules()) if (rule) all.push(rule); // of no rules the SDK makes one that is undefined
  return all;
}

await step("a subscription has the rule $Default", async () => {
  const found = await rules(client.createRuleManager(await subscription(), "s"));
  assert.equal(found.length, 1);
  assert.equal(found[0].name, "$Default");
  assert.equal(found[0].filter.sqlExpression, "1=1");
});

await step("createRule, listRules and deleteRule, with every kind of filter", async () => {
  const topic = await subscription();
  const manager = client.createRuleManager(topic, "s");
  const correlation = {
    correlationId: "c", messageId: "m", to: "t", replyTo: "r", subject: "l", sessionId: "s", replyToSessionId: "rs",
    contentType: "text/plain", applicationProperties: { colour: "red", size: 2, urgent: true },
  };
  await manager.deleteRule("$Default");
  await manager.createRule("sql", { sqlExpression: "colour = 'red'" }, { sqlExpression: "SET seen = 1" });
  await manager.createRule("correlation", correlation);
  const found = Object.fromEntries((await rules(manager)).map((rule) => [rule.name, rule]));
  assert.deepEqual(Object.keys(found).sort(), ["correlation", "sql"]);
  assert.equal(found.sql.filter.sqlExpression, "colour = 'red'");
  assert.equal(found.sql.action.sqlExpression, "SET seen = 1");
  assert.deepEqual(found.correlation.filter, correlation);
  // The administration sees the same.
  assert.equal((await admin.getRule(topic, "s", "sql")).filter.sqlExpression, "colour = 'red'");
  await manager.deleteRule("sql");
  await manager.deleteRule("correlation");
  assert.deepEqual(await rules(manager), []);
});

await step("rules come in pages", async () => {
  const manager = client.createRuleManager(await subscription(), "s");
  for (let i = 0; i < 6; i++) await manager.createRule(`rule-${i}`, { sqlExpression: `n = ${i}` });
  const sizes = [];
  for await (const page of manager.listRules().byPage({ maxPageSize: 3 })) sizes.push(page.length);
  assert.deepEqual(sizes, [3, 3, 1]);
});

await step("a rule takes effect at once", async () => {
  const topic = await subscription();
  const manager = client.createRuleManager(topic, "s");
  await manager.deleteRule("$Default");
  const sender = client.createSender(topic);
  await sender.sendMessages({ body: "before", applicationProperties: { colour: "red" } });
  await manager.createRule("red", { applicationProperties: { colour: "red" } }, { sqlExpression: "SET seen = 1" });
  await sender.sendMessages([{ body: "blue", applicationProperties: { colour: "blue" } }, { body: "red", applicationProperties: { colour: "red" } }]);
  const receiver = client.createReceiver(topic, "s", { receiveMode: "receiveAndDelete" });
  const [message] = await receive(receiver, 1);
  assert.equal(message.body, "red");
  assert.equal(Number(message.applicationProperties.seen), 1);
  await none(receiver);
});

await step("what is there is not made twice, what is missing not deleted, and bad SQL refused", async () => {
  const manager = client.createRuleManager(await subscription(), "s");
  await manager.createRule("r", { sqlExpression: "1=1" });
  assert.equal((await refused(() => manager.createRule("r", { sqlExpression: "1=1" }))).code, "MessagingEntityAlreadyExists");
  assert.equal((await refused(() => manager.deleteRule("missing"))).code, "MessagingEntityNotFound");
  const bad = await refused(() => manager.createRule("bad", { sqlExpression: "colour =" }));
  assert.match(bad.message, /colour|expression|sql/i);
  assert.equal((await rules(manager)).length, 2);
});

await finish(client);
