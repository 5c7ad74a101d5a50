// Package servicebus is the services' only way to Azure Service Bus: one implementation, on the Azure SDK, for the cloud
// and for the emulator alike. Nothing else in the services imports the SDK.
package servicebus
