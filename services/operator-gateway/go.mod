module github.com/commandcenter/fleet/services/operator-gateway

go 1.26.0

replace (
	github.com/commandcenter/fleet/proto => ../../proto
	github.com/commandcenter/fleet/services/internal => ../internal
	github.com/commandcenter/fleet/servicebus-emulator => ../../servicebus-emulator
)
