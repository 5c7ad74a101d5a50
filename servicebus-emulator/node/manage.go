package node

import (
	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
	"github.com/commandcenter/fleet/servicebus-emulator/faults"
	"github.com/commandcenter/fleet/servicebus-emulator/management"
)

const (
	statusOK           = 200
	statusUnauthorized = 401
	statusUnavailable  = 503

	operationSettle = "com.microsoft:update-disposition"
)

// manage carries out a request to an entity, unless a fault is in the way.
func (c *connection) manage(entity string, r *management.Request) management.Response {
	if err := c.Faults.Strike(faults.Managing, entity); err != nil {
		return failure(statusUnavailable, err)
	}
	// Looked up for each request, as entities come and go.
	response := management.Operate(c.Broker.Queue(entity), c.Broker.Destination(entity), r)
	if r.Operation == operationSettle && response.Status == statusOK && c.Faults.Strike(faults.Settled, entity) != nil {
		return management.Response{}
	}
	return response
}

func failure(status int32, err *amqp.Error) management.Response {
	return management.Response{Status: status, Condition: err.Condition, Description: err.Description}
}
