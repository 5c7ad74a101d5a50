package sqldb

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
)

// layout is how instants travel as text: UTC, milliseconds, as both dialects take and order them.
const layout = "2006-01-02T15:04:05.000Z"

// Named is a parameter of a statement.
func Named(name string, value any) sql.NamedArg { return sql.Named(name, value) }

// JSON is a parameter that holds a document: a batch, or a list of keys. SQL Server gets it as nvarchar(max) however short it is, since the driver
// declares other texts by their length, and each length would be a plan of its own.
func JSON(name string, document []byte) sql.NamedArg {
	return sql.Named(name, mssql.NVarCharMax(document))
}

// bound are the parameters as the dialect takes them. A NULL without a type is refused by some that speak SQL Server's protocol, and is a number to
// others; as a text it is converted to whatever it is compared with or stored in.
func (db *DB) bound(args []any) []any {
	if db.Dialect != SQLServer {
		return args
	}
	typed := slices.Clone(args)
	for i, arg := range typed {
		if one, ok := arg.(sql.NamedArg); ok && one.Value == nil {
			one.Value = sql.NullString{}
			typed[i] = one
		}
	}
	return typed
}

// Text is an instant as the statements take it.
func Text(at time.Time) string { return at.UTC().Format(layout) }

// NullText is an instant that may be absent.
func NullText(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return Text(at)
}

// Time scans an instant of either dialect; NULL is the zero time.
type Time struct{ time.Time }

// Scan implements sql.Scanner.
func (t *Time) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		t.Time = time.Time{}
	case time.Time:
		// datetime2 has no zone; the driver reads it as UTC.
		t.Time = v.UTC()
	case string:
		parsed, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			return err
		}
		t.Time = parsed.UTC()
	default:
		return fmt.Errorf("%T is no instant", value)
	}
	return nil
}

// Value implements driver.Valuer.
func (t Time) Value() (driver.Value, error) { return NullText(t.Time), nil }

// Null is nil for a zero value, and the value otherwise.
func Null[T comparable](value T) any {
	var zero T
	if value == zero {
		return nil
	}
	return value
}

// String scans a text; NULL is empty.
type String string

// Scan implements sql.Scanner.
func (s *String) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*s = ""
	case string:
		*s = String(v)
	case []byte:
		*s = String(v)
	default:
		return fmt.Errorf("%T is no text", value)
	}
	return nil
}

// Int scans a whole number; NULL is zero.
type Int int64

// Scan implements sql.Scanner.
func (i *Int) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*i = 0
	case int64:
		*i = Int(v)
	case bool:
		*i = 0
		if v {
			*i = 1
		}
	default:
		return fmt.Errorf("%T is no whole number", value)
	}
	return nil
}
