// Package reference renders the OpenAPI document as a page for people: on the server, without scripts.
package reference

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"regexp"
	"slices"
	"strings"
)

// Style is the page's style sheet, which it expects at /docs.css.
//
//go:embed reference.css
var Style string

// Policy is the page's Content-Security-Policy: nothing but its own style.
const Policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed reference.html
var page string

var pageTemplate = template.Must(template.New("reference").Funcs(template.FuncMap{
	"text": text, "line": line, "typed": typed, "last": last, "pretty": pretty, "verb": strings.ToUpper,
}).Parse(page))

// ordered is a JSON object with its members in the document's order.
type ordered[T any] []entry[T]

type entry[T any] struct {
	Name  string
	Value T
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *ordered[T]) UnmarshalJSON(content []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		var value T
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		*o = append(*o, entry[T]{fmt.Sprint(name), value})
	}
	return nil
}

type document struct {
	Info       struct{ Title, Version, Description string }
	Tags       []struct{ Name, Description string }
	Paths      ordered[ordered[operation]]
	Components struct {
		Schemas    ordered[schema]
		Parameters map[string]parameter
		Responses  map[string]response
		Headers    map[string]struct{ Description string }
	}
}

type operation struct {
	OperationID, Summary, Description string
	Tags                              []string
	Parameters                        []parameter
	RequestBody                       struct{ Content ordered[content] }
	Responses                         ordered[response]
	// CanonicalOperation is the operation of which this is another spelling; empty for a canonical one.
	CanonicalOperation string `json:"x-canonical-operation"`
}

type parameter struct {
	Ref                   string `json:"$ref"`
	Name, In, Description string
	Required              bool
	Schema                schema
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     ordered[content]
}

type content struct {
	Schema   schema
	Example  json.RawMessage
	Examples ordered[struct {
		Summary string
		Value   json.RawMessage
	}]
}

type schema struct {
	Ref                                string `json:"$ref"`
	Type, Format, Description, Pattern string
	Enum                               []string
	Items                              *schema
	Required                           []string
	Properties                         ordered[schema]
	OneOf, AnyOf                       []schema
	Minimum, Maximum                   *json.Number
	MinLength, MaxLength, MaxItems     *json.Number
}

// shown is one operation as the page has it.
type shown struct {
	operation
	Path, Method string
}

// Page renders a document.
func Page(openAPI []byte) (string, error) {
	var read document
	if err := json.Unmarshal(openAPI, &read); err != nil {
		return "", err
	}
	type section struct {
		Name, Description string
		Operations        []shown
	}
	var sections []section
	for _, tag := range read.Tags {
		made := section{Name: tag.Name, Description: tag.Description}
		for _, path := range read.Paths {
			for _, method := range path.Value {
				if slices.Contains(method.Value.Tags, tag.Name) {
					made.Operations = append(made.Operations, shown{resolved(read, method.Value), path.Name, method.Name})
				}
			}
		}
		sections = append(sections, made)
	}
	var out strings.Builder
	err := pageTemplate.Execute(&out, map[string]any{"Document": read, "Sections": sections})
	return out.String(), err
}

// resolved puts what an operation refers to in its place.
func resolved(read document, of operation) operation {
	for i, one := range of.Parameters {
		if one.Ref != "" {
			of.Parameters[i] = read.Components.Parameters[last(one.Ref)]
		}
	}
	for i, one := range of.Responses {
		if one.Value.Ref != "" {
			of.Responses[i].Value = read.Components.Responses[last(one.Value.Ref)]
		}
	}
	return of
}

// IsRequired reports whether a property is always there.
func (s schema) IsRequired(name string) bool { return slices.Contains(s.Required, name) }

// last is the name at the end of a reference.
func last(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

// typed says in a few words what a value is.
func typed(of schema) template.HTML {
	switch {
	case of.Ref != "":
		name := html.EscapeString(last(of.Ref))
		return template.HTML(`<a href="#schema-` + name + `">` + name + `</a>`)
	case of.Items != nil:
		return "list of " + typed(*of.Items)
	case len(of.AnyOf) > 0:
		var parts []string
		for _, one := range of.AnyOf {
			parts = append(parts, string(typed(one)))
		}
		return template.HTML(strings.Join(parts, " or "))
	}
	said := of.Type
	if of.Format != "" {
		said = of.Format
	}
	if len(of.Enum) > 0 {
		said = "one of"
		for _, choice := range of.Enum {
			said += fmt.Sprintf(" %q", choice)
		}
	}
	for _, bound := range []struct {
		word  string
		value *json.Number
	}{
		{"at least", of.Minimum}, {"at most", of.Maximum}, {"min. length", of.MinLength}, {"max. length", of.MaxLength}, {"at most items:", of.MaxItems},
	} {
		if bound.value != nil {
			said += ", " + bound.word + " " + bound.value.String()
		}
	}
	return template.HTML(html.EscapeString(said))
}

var (
	code = regexp.MustCompile("`([^`]+)`")
	bold = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// line renders the marks within a line of a description.
func line(of string) template.HTML {
	escaped := html.EscapeString(of)
	escaped = code.ReplaceAllString(escaped, "<code>$1</code>")
	return template.HTML(bold.ReplaceAllString(escaped, "<strong>$1</strong>"))
}

// text renders a description: paragraphs, and lists of lines that begin with "- ".
func text(of string) template.HTML {
	var out strings.Builder
	for paragraph := range strings.SplitSeq(of, "\n\n") {
		if !strings.HasPrefix(paragraph, "- ") {
			out.WriteString("<p>" + string(line(paragraph)) + "</p>")
			continue
		}
		out.WriteString("<ul>")
		for item := range strings.SplitSeq(paragraph, "\n") {
			out.WriteString("<li>" + string(line(strings.TrimPrefix(item, "- "))) + "</li>")
		}
		out.WriteString("</ul>")
	}
	return template.HTML(out.String())
}

// pretty indents an example.
func pretty(of json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, of, "", "  ") != nil {
		return string(of)
	}
	return out.String()
}
