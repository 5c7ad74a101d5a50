// Package entities names the topics and subscriptions the product uses, in the form the emulator reads.
package entities

import (
	_ "embed"

	servicebusemulator "github.com/commandcenter/fleet/servicebus-emulator"
)

//go:embed Config.json
var file []byte

// File is the file itself.
func File() []byte { return file }

// Config is what an emulator for the product is started with.
func Config() (servicebusemulator.Config, error) { return servicebusemulator.ParseConfig(file) }
