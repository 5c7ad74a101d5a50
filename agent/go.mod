module github.com/commandcenter/fleet/agent

go 1.26.0

replace (
	github.com/commandcenter/fleet/proto => ../proto
	github.com/commandcenter/fleet/servicebus-emulator => ../servicebus-emulator
)
