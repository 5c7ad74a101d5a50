// Package config loads a service's settings: defaults, then a YAML file, then the environment, then -set flags.
// A key nobody knows is refused by name, wherever it comes from; so is a value that cannot be read. Everything that is wrong
// is told at once, each with its key and its source.
package config
