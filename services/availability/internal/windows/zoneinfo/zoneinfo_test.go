package zoneinfo

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestEveryZoneLoads(t *testing.T) {
	byName, err := files()
	if err != nil {
		t.Fatal(err)
	}
	if len(byName) < 500 {
		t.Errorf("%d zones", len(byName))
	}
	for name := range byName {
		if zone, err := Load(name); err != nil || zone.String() != name {
			t.Errorf("%s: %v, %v", name, zone, err)
		}
	}
}

// A host says by ZONEINFO, and by its folder of zones, what other names and rules there are. Neither is asked.
func TestTheHostsZonesAreNotAsked(t *testing.T) {
	host := t.TempDir()
	byName, err := files()
	if err != nil {
		t.Fatal(err)
	}
	utc := contents(t, byName["UTC"])
	for _, name := range []string{"Europe/Amsterdam", "right/Europe/Amsterdam", "localtime", "Mars/Olympus"} {
		path := filepath.Join(host, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, utc, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ZONEINFO", host)
	for _, name := range []string{
		"right/Europe/Amsterdam", "posix/UTC", "localtime", "Local", "posixrules", "Factory", "Mars/Olympus", "",
		"Europe//Amsterdam", "Europe/Amsterdam/", "/Europe/Amsterdam", "../UTC", "europe/amsterdam", " UTC", "zone.tab",
	} {
		if zone, err := Load(name); err == nil {
			t.Errorf("%q was loaded as %s", name, zone)
		}
	}
	zone, err := Load("Europe/Amsterdam")
	if err != nil {
		t.Fatal(err)
	}
	if _, offset := time.Date(2026, 7, 1, 0, 0, 0, 0, zone).Zone(); offset != 2*60*60 {
		t.Errorf("Amsterdam is %d s ahead in summer: the host was asked", offset)
	}
}

func contents(t *testing.T, file *zip.File) []byte {
	t.Helper()
	reader, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	data, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
