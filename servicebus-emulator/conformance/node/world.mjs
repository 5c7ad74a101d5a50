// What the scripts of make conformance need: clients of the namespace that the environment names, and entities of their own.
import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";

export const connectionString = process.env.SERVICEBUS_CONNECTION_STRING;
export const endpoint = process.env.SERVICEBUS_ENDPOINT; // host and port

// The client takes the port of the endpoint only where it is an address of its own.
export const connection = { customEndpointAddress: `sb://${endpoint}`, retryOptions: { maxRetries: 0, timeoutInMs: 15_000 } };

export const connect = (withString = connectionString, options = {}) => new ServiceBusClient(withString, { ...connection, ...options });
export const administrate = (withString = connectionString) => new ServiceBusAdministrationClient(withString, { retryOptions: { maxRetries: 0 } });

export const admin = administrate();

let made = 0;
export const fresh = (kind) => `${kind}-${process.pid}-${++made}`;

// queue makes one and gives its name.
export async function queue(properties = {}) {
  const name = fresh("queue");
  await admin.createQueue(name, properties);
  return name;
}

// subscription makes a topic with the subscription "s", and gives the topic's name.
export async function subscription(properties = {}, topicProperties = {}) {
  const name = fresh("topic");
  await admin.createTopic(name, topicProperties);
  await admin.createSubscription(name, "s", properties);
  return name;
}

// refused gives the error of what must fail.
export async function refused(run) {
  try {
    await run();
  } catch (e) {
    return e;
  }
  throw new Error("it was not refused");
}
