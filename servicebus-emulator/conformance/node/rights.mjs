// Who may do what, by keys and by signatures.
// Run by make conformance, which sets the environment.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { finish, receive, step } from "./steps.mjs";
import { connect, connectionString, endpoint, queue, refused } from "./world.mjs";

const client = connect();
const [, keyName] = /SharedAccessKeyName=([^;]*)/.exec(connectionString);
const [, key] = /SharedAccessKey=([^;]*)/.exec(connectionString);

// signature signs a resource as the service documents it.
function signature(resource, seconds = 600) {
  const sr = encodeURIComponent(resource);
  const se = Math.floor(Date.now() / 1000) + seconds;
  const sig = encodeURIComponent(createHmac("sha256", key).update(`${sr}\n${se}`).digest("base64"));
  return `SharedAccessSignature sr=${sr}&sig=${sig}&se=${se}&skn=${keyName}`;
}

async function by(withString, run) {
  const c = connect(withString);
  try {
    return await run(c);
  } finally {
    await c.close();
  }
}
const signed = (resource, run, seconds) => by(`Endpoint=sb://${endpoint}/;SharedAccessSignature=${signature(resource, seconds)}`, run);
const send = (name) => (c) => c.createSender(name).sendMessages({ body: "x" });
const listen = (name) => (c) => receive(c.createReceiver(name), 1, 2_000);

await step("a key that may only send may not listen", async () => {
  const name = await queue();
  const only = process.env.SERVICEBUS_CONNECTION_STRING_SEND_ONLY;
  await by(only, send(name));
  const e = await refused(() => by(only, listen(name)));
  assert.equal(e.code, "UnauthorizedAccess");
  assert.match(e.message, /'Listen' claim\(s\) are required to perform this operation/);
});

await step("a key that may only listen may not send", async () => {
  const name = await queue();
  await send(name)(client);
  const only = process.env.SERVICEBUS_CONNECTION_STRING_LISTEN_ONLY;
  await by(only, listen(name));
  const e = await refused(() => by(only, send(name)));
  assert.equal(e.code, "UnauthorizedAccess");
  assert.match(e.message, /'Send' claim\(s\) are required to perform this operation/);
});

await step("SharedAccessSignature= with a URL, a bare host, and the host without its port", async () => {
  const name = await queue();
  for (const resource of [`sb://${endpoint}/`, `https://${endpoint}/`, endpoint, endpoint.split(":")[0], `sb://${endpoint}/${name}`, `${endpoint}/${name}`]) {
    try {
      await signed(resource, send(name));
    } catch (e) {
      throw new Error(`${resource}: ${e.message}`);
    }
  }
});

await step("a signature for another host, for another entity, and one that expired are refused", async () => {
  const name = await queue();
  for (const [resource, seconds] of [["sb://example.servicebus.windows.net/", 600], [`sb://${endpoint}/other`, 600], [`sb://${endpoint}/`, -60]]) {
    const e = await refused(() => signed(resource, send(name), seconds));
    assert.equal(e.code, "UnauthorizedAccess", `${resource}: ${e.message}`);
  }
});

await step("a wrong key is refused", async () => {
  const name = await queue();
  const e = await refused(() => by(`Endpoint=sb://${endpoint}/;SharedAccessKeyName=${keyName};SharedAccessKey=d3Jvbmc=`, send(name)));
  assert.equal(e.code, "UnauthorizedAccess");
});

await finish(client);
