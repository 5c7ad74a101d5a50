package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// fields are the settable fields by key ("grpc.listen").
type fields map[string]reflect.Value

// fieldsOf finds a struct's fields: the tag `config:"name"` names one, "-" leaves it out, nested structs are nested keys, and the fields
// of an embedded struct are the struct's own.
func fieldsOf(structure reflect.Value, prefix string) fields {
	found := fields{}
	for i := range structure.NumField() {
		field := structure.Type().Field(i)
		name := field.Tag.Get("config")
		if name == "-" || !field.IsExported() {
			continue
		}
		if field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct {
			maps.Copy(found, fieldsOf(structure.Field(i), prefix))
			continue
		}
		if name == "" {
			name = string(unicode.ToLower(rune(field.Name[0]))) + field.Name[1:]
		}
		if field.Type.Kind() == reflect.Struct {
			maps.Copy(found, fieldsOf(structure.Field(i), prefix+name+delimiter))
			continue
		}
		found[prefix+name] = structure.Field(i)
	}
	return found
}

// group tells whether keys below this one exist, as of "grpc".
func (f fields) group(key string) bool {
	for name := range f {
		if strings.HasPrefix(name, key+delimiter) {
			return true
		}
	}
	return false
}

// apply puts a setting into its field.
func (f fields) apply(one setting) error {
	field, known := f[one.key]
	if !known {
		if table, name, ok := f.entryOf(one.key); ok && one.value.kind == isScalar {
			put(table, name, one.value.text)
			return nil
		}
		return f.unknown(one)
	}
	if err := one.value.into(field); err != nil {
		return fmt.Errorf("%s: %w (from %s)", one.key, err, one.source)
	}
	return nil
}

// entryOf finds the table that a key is an entry of: with the table "labels", "labels.a.b" is its entry "a.b".
func (f fields) entryOf(key string) (table reflect.Value, name string, ok bool) {
	for prefix, field := range f {
		if rest, within := strings.CutPrefix(key, prefix+delimiter); within && field.Kind() == reflect.Map {
			return field, rest, true
		}
	}
	return reflect.Value{}, "", false
}

func (f fields) unknown(one setting) error {
	if f.group(one.key) {
		return fmt.Errorf("%s: is a group of settings, not one (from %s); %s", one.key, one.source, f.hint(one.key, strings.Clone))
	}
	return fmt.Errorf("%s: no such setting (from %s); %s", one.key, one.source, f.hint(one.key, strings.Clone))
}

// value is what a source holds for a key: one text, or what only files can hold, a list or a table.
type value struct {
	kind  kind
	text  string
	list  []string
	table map[string]string
}

type kind int

const (
	isScalar kind = iota
	isList
	isTable
)

func scalar(text string) value { return value{text: text} }

// into sets the field. Texts are read the same from every source; no error shows the text of a secret.
func (v value) into(field reflect.Value) error {
	switch field.Kind() {
	case reflect.Slice:
		return v.intoList(field)
	case reflect.Map:
		return v.intoTable(field)
	}
	if v.kind != isScalar {
		return errors.New("must be a single value")
	}
	if _, ok := field.Interface().(time.Duration); ok {
		parsed, err := time.ParseDuration(v.text)
		if err != nil {
			return fmt.Errorf("must be a duration with its unit, such as 500ms, 30s or 2h; is %q", v.text)
		}
		field.SetInt(int64(parsed))
		return nil
	}
	switch field.Kind() {
	case reflect.String:
		field.SetString(v.text)
	case reflect.Bool:
		if v.text != "true" && v.text != "false" {
			return fmt.Errorf("must be true or false; is %q", v.text)
		}
		field.SetBool(v.text == "true")
	case reflect.Int, reflect.Int32, reflect.Int64:
		parsed, err := strconv.ParseInt(v.text, 10, field.Type().Bits())
		if err != nil {
			return fmt.Errorf("must be a whole number; is %q", v.text)
		}
		field.SetInt(parsed)
	case reflect.Float64:
		parsed, err := strconv.ParseFloat(v.text, 64)
		if err != nil {
			return fmt.Errorf("must be a number; is %q", v.text)
		}
		field.SetFloat(parsed)
	default:
		return fmt.Errorf("has the type %s, which settings cannot have", field.Type())
	}
	return nil
}

func (v value) intoList(field reflect.Value) error {
	items := v.list
	switch {
	case v.kind == isTable:
		return errors.New("must be a list")
	case v.kind == isScalar && v.text != "":
		items = strings.Split(v.text, ",")
	}
	list := reflect.MakeSlice(field.Type(), len(items), len(items))
	for i, item := range items {
		list.Index(i).SetString(strings.TrimSpace(item))
	}
	field.Set(list)
	return nil
}

// intoTable replaces the table; single entries are set by a key of their own (-set table.entry=value).
func (v value) intoTable(field reflect.Value) error {
	if v.kind != isTable {
		return errors.New("must be a mapping; single entries are set as key.entry=value")
	}
	field.Set(reflect.MakeMap(field.Type()))
	for name, text := range v.table {
		put(field, name, text)
	}
	return nil
}

func put(table reflect.Value, name, text string) {
	if table.IsNil() {
		table.Set(reflect.MakeMap(table.Type()))
	}
	table.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(text))
}
