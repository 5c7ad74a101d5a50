module github.com/commandcenter/fleet/deploy

go 1.26.0

replace (
	github.com/commandcenter/fleet/agent => ../agent
	github.com/commandcenter/fleet/proto => ../proto
	github.com/commandcenter/fleet/servicebus-emulator => ../servicebus-emulator
	github.com/commandcenter/fleet/services/heartbeat => ../services/heartbeat
	github.com/commandcenter/fleet/services/internal => ../services/internal
	github.com/commandcenter/fleet/services/operator-gateway => ../services/operator-gateway
	github.com/commandcenter/fleet/services/registry => ../services/registry
)
