// A caller whose types are made of the OpenAPI document. It prints one line per answer; a type error or an unexpected answer ends it.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [base, agent] = process.argv.slice(2);
if (!base || !agent) throw new Error("usage: node caller.js BASE_URL AGENT");
const client = createClient<paths>({ baseUrl: base });

function unexpected(problem: components["schemas"]["Problem"] | undefined): never {
  throw new Error(`${problem?.reason}: ${problem?.detail}`);
}

// A list: its fields are always there.
const listed = await client.GET("/api/agents", { params: { query: { pageSize: 10 } } });
if (!listed.data) unexpected(listed.error);
const names: string[] = listed.data.agents.map((one) => one.name);
console.log("agents", names.includes(agent), listed.data.nextPageToken.length);

// A read and a write, with their parameters typed.
const path = { agent, service: "W3SVC" };
const services = await client.GET("/api/agents/{agent}/services", { params: { path: { agent } } });
if (!services.data) unexpected(services.error);
console.log("services", services.data.services.length > 0, services.data.receipt?.transport);
const restarted = await client.POST("/api/agents/{agent}/services/{service}/restart", {
  params: { path, header: { "Idempotency-Key": crypto.randomUUID() } },
});
if (!restarted.data) unexpected(restarted.error);
console.log("restarted", restarted.data.transport);

// A change with its etag, by a route without a colon.
const shown = await client.GET("/api/config/agents/{agent}", { params: { path: { agent } } });
if (!shown.data) unexpected(shown.error);
const rejected = await client.POST("/api/config/agents/{agent}/reject", {
  params: { path: { agent }, header: { "If-Match": `"${shown.data.etag}"` } },
  body: {},
});
if (!rejected.data) unexpected(rejected.error);
console.log("rejected", rejected.data.registrationState);

// An error: its reason is one of an enum.
const refused = await client.GET("/api/agents/{agent}/services", { params: { path: { agent } } });
const reason: components["schemas"]["Reason"] | undefined = refused.error?.reason;
console.log("refused", refused.response.status, reason === "AGENT_NOT_ACCEPTED");

// Events, one a line.
const batch = await client.POST("/api/agents-batch", { body: { agents: [agent], startService: { service: "W3SVC" } }, parseAs: "text" });
for (const line of (batch.data as unknown as string).trim().split("\n")) {
  const event = JSON.parse(line) as components["schemas"]["BatchRunEvent"];
  if ("item" in event) console.log("item", event.item.outcome);
  else console.log("summary", event.summary.notSent);
}
