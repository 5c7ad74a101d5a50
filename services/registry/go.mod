module github.com/commandcenter/fleet/services/registry

go 1.26.0

replace (
	github.com/commandcenter/fleet/proto => ../../proto
	github.com/commandcenter/fleet/servicebus-emulator => ../../servicebus-emulator
	github.com/commandcenter/fleet/services/internal => ../internal
)

require (
	github.com/commandcenter/fleet/proto v0.0.0
	golang.org/x/net v0.62.0
	golang.org/x/text v0.44.0
	google.golang.org/protobuf v1.36.12
)

require buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go v1.36.12-20260825204119-511051f7f437.2 // indirect
