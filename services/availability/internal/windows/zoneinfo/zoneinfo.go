// Package zoneinfo is the IANA time-zone database of this program, version 2025c. It is public domain, as Go ships it; `make zones`
// takes it over from the Go release that runs it.
//
// [time.LoadLocation] would ask the host first. Replicas on hosts with other databases would then disagree about when a window
// is, and the host's own names (localtime, posixrules, right/…) would mean something else on each.
package zoneinfo

import (
	"archive/zip"
	"bytes"
	_ "embed" // the database
	"fmt"
	"io"
	"sync"
	"time"
)

//go:embed zoneinfo.zip
var database []byte

var files = sync.OnceValues(func() (map[string]*zip.File, error) {
	archive, err := zip.NewReader(bytes.NewReader(database), int64(len(database)))
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*zip.File, len(archive.File))
	for _, file := range archive.File {
		byName[file.Name] = file
	}
	delete(byName, "Factory") // it means that no zone was set
	return byName, nil
})

// Load returns the zone of an IANA name, such as Europe/Amsterdam or UTC; case matters.
func Load(name string) (*time.Location, error) {
	byName, err := files()
	if err != nil {
		return nil, err
	}
	file, found := byName[name]
	if !found {
		return nil, fmt.Errorf("no zone %q in the IANA database", name)
	}
	reader, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	data, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData(name, data)
}
