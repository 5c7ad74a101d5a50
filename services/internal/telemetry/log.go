package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// LogConfig says what is logged and how.
type LogConfig struct {
	// Level is debug, info, warn or error.
	Level string `config:"level"`
	// Format is json or text.
	Format string `config:"format"`
}

// DefaultLogConfig logs info and above as JSON.
func DefaultLogConfig() LogConfig { return LogConfig{Level: "info", Format: "json"} }

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// NewLogger makes the service's logger. Errors name the key.
func NewLogger(w io.Writer, service string, cfg LogConfig) (*slog.Logger, error) {
	level, ok := levels[cfg.Level]
	if !ok {
		return nil, fmt.Errorf("log.level: %q is none of debug, info, warn, error", cfg.Level)
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch cfg.Format {
	case "json":
		handler = slog.NewJSONHandler(w, options)
	case "text":
		handler = slog.NewTextHandler(w, options)
	default:
		return nil, fmt.Errorf("log.format: %q is neither json nor text", cfg.Format)
	}
	return slog.New(handler).With("service", service), nil
}
