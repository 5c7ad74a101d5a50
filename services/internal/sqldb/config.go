package sqldb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/commandcenter/fleet/services/internal/config"
)

// Config says where a service's data is. Exactly one of URL and URLFile is set.
type Config struct {
	// URL is sqlite:<path>, or sqlserver://… where it holds no secret.
	URL config.Secret `config:"url"`
	// URLFile is the path of a file that holds the URL.
	URLFile string `config:"urlFile"`
	// Migrate brings the schema up at the start; only for SQLite, which one machine uses.
	Migrate bool `config:"migrate"`
}

// Validate checks the settings and what they point to, without connecting; errors name the keys under "database". Command brings the
// schema up, for the text of an error.
func (c Config) Validate(command string) error {
	url, err := c.url()
	if err != nil {
		return err
	}
	if err := CheckURL(url.Reveal()); err != nil {
		return c.Named(err)
	}
	path, isFile := strings.CutPrefix(url.Reveal(), sqliteScheme)
	if !isFile && c.Migrate {
		return fmt.Errorf("database.migrate: is for SQLite only, since several replicas share a SQL Server: run `%s` before a rollout", command)
	}
	if isFile {
		return c.Named(checkFile(path))
	}
	return nil
}

// checkFile refuses a path at which no database file can be.
func checkFile(path string) error {
	folder := filepath.Dir(path)
	switch found, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the folder %s does not exist", folder)
	case err != nil:
		return fmt.Errorf("the folder of the database file cannot be read: %w", err)
	case !found.IsDir():
		return fmt.Errorf("%s is not a folder", folder)
	}
	if found, err := os.Stat(path); err == nil && found.IsDir() {
		return fmt.Errorf("%s is a folder, not a file", path)
	}
	return nil
}

func (c Config) url() (config.Secret, error) {
	switch {
	case (c.URL == "") == (c.URLFile == ""):
		return "", errors.New("database: exactly one of url and urlFile must be set")
	case c.URLFile != "":
		return config.ReadSecretFile("database.urlFile", c.URLFile)
	}
	return c.URL, nil
}

// Named puts the key of the setting that says which database it is before an error. Nil stays nil.
func (c Config) Named(err error) error {
	switch {
	case err == nil:
		return nil
	case c.URLFile != "":
		return fmt.Errorf("database.urlFile: %w", err)
	}
	return fmt.Errorf("database.url: %w", err)
}

// Open prepares the pool, as the function of that name does.
func (c Config) Open(statements fs.FS) (*DB, error) {
	url, err := c.url()
	if err != nil {
		return nil, err
	}
	db, err := Open(url.Reveal(), statements)
	return db, c.Named(err)
}
