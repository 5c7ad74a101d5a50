// The ways in: TLS, AMQP over WebSockets, and the address that samples wait for.
// Run by make conformance, which sets the environment.
import assert from "node:assert/strict";
import WebSocket from "ws";
import { finish, receive, step } from "./steps.mjs";
import { connect, endpoint, queue } from "./world.mjs";

const client = connect();

async function there_and_back(c) {
  const name = await queue();
  await c.createSender(name).sendMessages({ body: "x".repeat(100_000) });
  const receiver = c.createReceiver(name);
  const [message] = await receive(receiver, 1);
  assert.equal(message.body.length, 100_000);
  await receiver.completeMessage(message);
}

await step("AMQP over TLS", () => there_and_back(client));

await step("AMQP over WebSockets", async () => {
  const c = connect(undefined, { webSocketOptions: { webSocket: WebSocket } });
  await there_and_back(c);
  await c.close();
});

await step("/health says healthy", async () => {
  const response = await fetch(`https://${endpoint}/health`);
  assert.equal(response.status, 200);
  assert.deepEqual(await response.json(), { status: "healthy" });
});

await finish(client);
