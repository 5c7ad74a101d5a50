package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestATokenIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	token, err := Token(path)
	if err != nil || len(token) != 43 {
		t.Fatalf("%q, %v", token, err)
	}
	if again, err := Token(path); err != nil || again != token {
		t.Errorf("%q and then %q, %v", token, again, err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if other, err := Token(path + "2"); err != nil || other == token {
		t.Errorf("two agents have one token, %v", err)
	}
}

func TestADamagedTokenIsLeftAndTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for _, damaged := range []string{"", "\n", strings.Repeat("A", 42), strings.Repeat("A", 43) + "\n\n", strings.Repeat("A", 42) + "B", strings.Repeat("A", 42) + "="} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if token, err := Token(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "delete it") {
			t.Errorf("%q: %q, %v", damaged, token, err)
		}
		if left, _ := os.ReadFile(path); string(left) != damaged {
			t.Errorf("%q became %q", damaged, left)
		}
	}
}

func TestATokenThatIsNotOnDiskIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for _, step := range []string{"write", "sync", "close"} {
		err := saveToken(path, strings.Repeat("A", 43), func(path string, flag int) (file, error) {
			f, err := openPrivate(path, flag)
			return failing{f, step, new([]string)}, err
		})
		if !errors.Is(err, errDisk) {
			t.Errorf("%s: %v", step, err)
		}
		if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
			t.Errorf("%s: left behind: %v", step, left)
		}
	}
	if token, err := Token(filepath.Join(path, "nowhere")); err == nil {
		t.Errorf("%q is on no disk", token)
	}
}
