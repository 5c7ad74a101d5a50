package live

// Suite is a set of tests of others: a package of one module.
type Suite struct {
	Name    string
	Module  string
	Package string // within the module
	File    string // only the tests of this file belong to it; empty: those of all files
	Tests   int    // how many there are, so that none is lost unseen
}

const azservicebus = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

// Suites are all of them.
var Suites = []Suite{
	{Name: "azservicebus", Module: azservicebus, Package: ".", Tests: 137},
	{Name: "admin", Module: azservicebus, Package: "./admin", Tests: 45},
	{Name: "internal", Module: azservicebus, Package: "./internal", Tests: 63},
	{Name: "go-amqp", Module: "github.com/Azure/go-amqp", Package: ".", File: "integration_test.go", Tests: 17},
}
