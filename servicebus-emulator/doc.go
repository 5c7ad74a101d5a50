// Package servicebusemulator is a stand-in for Azure Service Bus, for development and tests: the real Azure
// SDK connects to it over AMQP. It needs nothing but itself, keeps its messages in memory, and is not for
// production.
//
//	cfg, err := servicebusemulator.LoadConfig("Config.json")
//	...
//	emulator, err := servicebusemulator.Start(cfg, servicebusemulator.Options{})
//	...
//	defer emulator.Close()
//	client, err := azservicebus.NewClientFromConnectionString(emulator.ConnectionString(), nil)
package servicebusemulator
