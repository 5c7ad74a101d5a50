// What the service keeps of a message, and what is too much for it. Everything is answered: a step that runs out of time has failed.
// Run by make conformance, which sets the environment.
import assert from "node:assert/strict";
import rhea from "rhea";
import { finish, receive, step } from "./steps.mjs";
import { connect, endpoint, queue, refused } from "./world.mjs";

const client = connect();

await step("delivery annotations and a footer are kept", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages({
    bodyType: "data", body: Buffer.from("x"), footer: { "x-opt-footer": "f" }, deliveryAnnotations: { "x-opt-mine": "kept" },
    messageAnnotations: { "x-opt-other": "too" },
  });
  const [{ _rawAmqpMessage: raw }] = await receive(client.createReceiver(name), 1);
  assert.equal(raw.deliveryAnnotations?.["x-opt-mine"], "kept");
  assert.equal(raw.messageAnnotations?.["x-opt-other"], "too");
  assert.equal(raw.footer?.["x-opt-footer"], "f");
});

await step("application properties that are arrays are refused", async () => {
  const name = await queue();
  const e = await refused(() => client.createSender(name).sendMessages({ body: "x", applicationProperties: { bad: ["a", "b"] } }));
  assert.notEqual(e.code, "ServiceTimeout", e.message);
});

await step("properties of 20 KB are taken, one of more than 32 KB and all of more than 64 KB refused", async () => {
  const name = await queue();
  const sender = client.createSender(name);
  await sender.sendMessages({ body: "x", applicationProperties: { a: "a".repeat(20 << 10) } });
  await receive(client.createReceiver(name), 1);
  const four = Object.fromEntries(["a", "b", "c", "d"].map((k) => [k, k.repeat(20 << 10)]));
  for (const applicationProperties of [{ a: "a".repeat(40 << 10) }, four]) {
    const e = await refused(() => connect().createSender(name).sendMessages({ body: "x", applicationProperties }));
    assert.notEqual(e.code, "ServiceTimeout", e.message);
  }
});

await step("a message beyond the maximum size is refused", async () => {
  const name = await queue();
  const e = await refused(() => client.createSender(name).sendMessages({ body: Buffer.alloc(300 << 10) }));
  assert.equal(e.code, "MessageSizeExceeded");
});

await step("a session's state of 200 KB is kept, one of 600 KB refused", async () => {
  const name = await queue({ requiresSession: true });
  const receiver = await client.acceptSession(name, "s");
  await receiver.setSessionState(Buffer.alloc(200 << 10, 1));
  assert.equal((await receiver.getSessionState()).length, 200 << 10);
  const e = await refused(() => receiver.setSessionState(Buffer.alloc(600 << 10)));
  assert.notEqual(e.code, "ServiceTimeout", e.message);
  assert.equal((await receiver.getSessionState()).length, 200 << 10);
});

await step("ids of more than 128 characters are refused", async () => {
  const name = await queue();
  for (const more of [{ messageId: "m".repeat(129) }, { sessionId: "s".repeat(129) }, { partitionKey: "p".repeat(129) }]) {
    await refused(() => client.createSender(name).sendMessages({ body: "x", ...more }));
  }
});

await step("a second sender to $cbs on a connection is refused", () => new Promise((resolve, reject) => {
  const [host, port] = endpoint.split(":");
  const container = rhea.create_container();
  const connection = container.connect({ host, port, transport: "tls", servername: host, username: "anonymous", reconnect: false });
  let opened = 0;
  const end = (run) => { connection.close(); run(); };
  connection.on("sendable", () => {
    if (++opened === 1) connection.open_sender({ name: "second", target: { address: "$cbs" } });
    else end(() => reject(new Error("it was taken")));
  });
  connection.on("sender_error", ({ sender }) => end(() => {
    if (opened === 1 && /not-allowed/.test(sender.error.condition)) resolve();
    else reject(new Error(`${opened}: ${sender.error}`));
  }));
  connection.on("connection_error", ({ connection: c }) => reject(new Error(`the connection: ${c.error}`)));
  connection.on("disconnected", ({ error }) => reject(new Error(`disconnected: ${error}`)));
  connection.open_sender({ name: "first", target: { address: "$cbs" } });
}));

await finish(client);
