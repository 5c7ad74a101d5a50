package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
)

// readFile reads the settings of a YAML file.
func readFile(path string, known fields) ([]setting, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("-config: %w", err)
	}
	settings, err := parseFile(raw, path, known)
	if err != nil {
		return nil, fmt.Errorf("-config: %s: %w", path, err)
	}
	return settings, nil
}

func parseFile(raw []byte, path string, known fields) ([]setting, error) {
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("must be one YAML document; nothing after a second --- would be read")
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: must be a mapping of settings", root.Line)
	}
	walk := walk{path: path, known: known, seen: map[string]int{}}
	walk.mapping(root, "")
	return walk.settings, walk.problems.Err()
}

// walk gathers the settings of nested mappings.
type walk struct {
	path     string
	known    fields
	seen     map[string]int // line by key
	settings []setting
	problems Problems
}

func (w *walk) mapping(node *yaml.Node, prefix string) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, content := node.Content[i], node.Content[i+1]
		key := prefix + name.Value
		switch {
		case w.known.group(key) && content.Kind == yaml.MappingNode:
			w.mapping(content, key+delimiter)
		case w.known.group(key) && content.Tag == "!!null":
			// A heading whose settings are all left out.
		default:
			w.leaf(key, name.Line, content)
		}
	}
}

func (w *walk) leaf(key string, line int, node *yaml.Node) {
	if before, twice := w.seen[key]; twice {
		w.problems.Add(key, "is set twice, in lines %d and %d", before, line)
		return
	}
	w.seen[key] = line
	found, err := valueOf(node)
	if err != nil {
		w.problems.Add(key, "%v (line %d)", err, line)
		return
	}
	w.settings = append(w.settings, setting{key: key, source: fmt.Sprintf("%s line %d", w.path, line), value: found})
}

func valueOf(node *yaml.Node) (value, error) {
	switch {
	case node.Kind == yaml.AliasNode:
		return value{}, errors.New("is an alias; write the value itself")
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		return value{}, errors.New("has no value; leave the key out for the default")
	case node.Kind == yaml.ScalarNode:
		return scalar(node.Value), nil
	case node.Kind == yaml.SequenceNode:
		list := value{kind: isList}
		for _, item := range node.Content {
			if item.Kind != yaml.ScalarNode {
				return value{}, errors.New("must be a list of single values")
			}
			list.list = append(list.list, item.Value)
		}
		return list, nil
	}
	table := value{kind: isTable, table: map[string]string{}}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, item := node.Content[i], node.Content[i+1]
		if item.Kind != yaml.ScalarNode {
			return value{}, fmt.Errorf("%s must be a single value", name.Value)
		}
		if _, twice := table.table[name.Value]; twice {
			return value{}, fmt.Errorf("%s is set twice", name.Value)
		}
		table.table[name.Value] = item.Value
	}
	return table, nil
}
