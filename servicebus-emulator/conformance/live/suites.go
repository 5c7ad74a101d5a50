package live

// Suite is a set of tests of others: a package of one module.
type Suite struct {
	Name    string
	Module  string
	Package string // within the module
	File    string // only the tests of this file belong to it; empty: those of all files
	Tests   int    // how many there are, so that none is lost unseen
	Keys    bool   // its clients sign in with a connection string, all of them
}

const (
	azservicebus = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	goAMQP       = "github.com/Azure/go-amqp"
)

// Suites are all of them.
var Suites = []Suite{
	{Name: "azservicebus", Module: azservicebus, Package: ".", Tests: 137},
	{Name: "azservicebus by key", Module: azservicebus, Package: ".", Tests: 137, Keys: true},
	{Name: "admin", Module: azservicebus, Package: "./admin", Tests: 45},
	{Name: "admin by key", Module: azservicebus, Package: "./admin", Tests: 45, Keys: true},
	{Name: "internal", Module: azservicebus, Package: "./internal", Tests: 63},
	{Name: "go-amqp", Module: goAMQP, Package: ".", File: "integration_test.go", Tests: 17},
}
