// Package live runs tests that others wrote for Azure Service Bus against the emulator: the live tests of the Azure SDK for Go and the
// integration tests of go-amqp, at the versions that this module requires, and probes of ours with the SDK for Node (folder node).
//
// The tests of others come from the Go module proxy and are unpacked to a scratch folder for the time of the run. They are changed only
// by the list Patches. A test that does not pass is a failure, unless NotApplicable names it with a reason.
package live
