package main

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// schema is an OpenAPI schema in a CRD.
type schema = map[string]any

// repeated are the fields whose schema another field has too. What is inside of them has no
// descriptions: `kubectl explain` shows these for the other field, such as podAffinity or clusters.
var repeated = map[string]bool{"podAntiAffinity": true, "worstClusters": true}

// repeating are the types of this API whose fields of Kubernetes types repeat those of an
// AppServiceSpec, such as env.
var repeating = map[reflect.Type]bool{
	reflect.TypeFor[v1alpha1.InitContainer](): true,
	reflect.TypeFor[v1alpha1.Override]():      true,
}

// shortenType shortens the descriptions in the schema of a type of this API. It keeps those of the
// type's own fields.
func shortenType(kind reflect.Type, s schema) {
	properties, _ := s["properties"].(schema)
	for i := range kind.NumField() {
		field := kind.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := elementOf(field.Type)
		switch property, found := properties[name].(schema); {
		case options == "inline" && isOfThisAPI(inner):
			shortenType(inner, s)
		case !found || name == "metadata":
		case repeated[name]:
			edit(elementSchema(property), drop)
		case isOfThisAPI(inner):
			shortenType(inner, elementSchema(property))
		case repeating[kind]:
			edit(elementSchema(property), drop)
		default:
			edit(elementSchema(property), firstSentence)
		}
	}
}

// edit changes the descriptions of all fields inside a schema, but not its own one.
func edit(s schema, change func(string) string) {
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, found := s[key].(schema); found {
			describe(inner, change)
		}
	}
	properties, _ := s["properties"].(schema)
	for name, value := range properties {
		if property, isSchema := value.(schema); isSchema {
			describe(property, change)
			if repeated[name] {
				edit(property, drop)
			}
		}
	}
}

// describe changes the description of a schema, and those inside of it.
func describe(s schema, change func(string) string) {
	if text, found := s["description"].(string); found {
		if s["description"] = change(text); s["description"] == "" {
			delete(s, "description")
		}
	}
	edit(s, change)
}

func drop(string) string { return "" }

// firstSentence returns the first sentence of a description.
func firstSentence(text string) string {
	for from := 0; ; {
		end := strings.IndexAny(text[from:], ".\n")
		if end < 0 {
			return text
		}
		from += end + 1
		if isSentence(text[:from], text[from:]) {
			return strings.TrimSpace(text[:from])
		}
	}
}

// shortForm matches a short form, whose period ends no sentence, at the end of a text.
var shortForm = regexp.MustCompile(`\b(?:e\.g|i\.e|etc|vs)\.$`)

// isSentence reports whether a text that ends with a period or a line break is a sentence or a
// paragraph, if the rest follows.
func isSentence(text, rest string) bool {
	if strings.HasSuffix(text, "\n") {
		return strings.HasPrefix(rest, "\n")
	}
	return (rest == "" || strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "\n")) && !shortForm.MatchString(text)
}

// elementSchema returns the schema of the elements of a list or a map, or else the schema itself.
func elementSchema(s schema) schema {
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, found := s[key].(schema); found {
			return inner
		}
	}
	return s
}

// elementOf returns the type of the elements of a pointer, a list or a map, or else the type itself.
func elementOf(kind reflect.Type) reflect.Type {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map {
		kind = kind.Elem()
	}
	return kind
}

// isOfThisAPI reports whether a type is a struct of this API.
func isOfThisAPI(kind reflect.Type) bool {
	return kind.Kind() == reflect.Struct && kind.PkgPath() == reflect.TypeFor[v1alpha1.AppService]().PkgPath()
}
