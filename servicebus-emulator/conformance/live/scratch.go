package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// module is what go says of a module.
type module struct{ Path, Version, Dir string }

// unpack copies a module to a folder below scratch and patches it. root is the folder of the emulator's go.mod, which names the version.
func unpack(ctx context.Context, root, scratch string, s Suite) (dir string, err error) {
	var m module
	if err := goJSON(ctx, root, &m, "list", "-m", "-json", s.Module); err != nil {
		return "", err
	}
	if err := goJSON(ctx, root, &m, "mod", "download", "-json", m.Path+"@"+m.Version); err != nil {
		return "", err
	}
	dir = filepath.Join(scratch, path.Base(s.Module))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil // another suite is of the same module
	}
	if err := os.CopyFS(dir, os.DirFS(m.Dir)); err != nil {
		return "", fmt.Errorf("unpack %s: %w", m.Path, err)
	}
	return dir, apply(s.Module, dir)
}

// goJSON runs a go command in a folder, outside the workspace, and reads what it prints.
func goJSON(ctx context.Context, dir string, into any, args ...string) error {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	command.Env = append(command.Environ(), "GOWORK=off")
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s%s", strings.Join(args, " "), errors.Join(err, ctx.Err()), complaints.String(), out)
	}
	return nil
}
