package chart

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documented are the fields of one part of docs/configuration.md. The gateway's own tests expect it to have each field.
func documented(t *testing.T, from, to string) []string {
	t.Helper()
	_, part, _ := strings.Cut(read(t, root+"/docs/configuration.md"), "\n"+from+"\n")
	part, _, found := strings.Cut(part, "\n"+to+"\n")
	if !found {
		t.Fatalf("nothing between %s and %s", from, to)
	}
	var paths []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-zA-Z.]+)` \\|").FindAllStringSubmatch(part, -1) {
		paths = append(paths, match[1])
	}
	return withoutMappings(paths)
}

// withoutMappings leaves out the paths below which others are.
func withoutMappings(paths []string) []string {
	return slices.DeleteFunc(sorted(slices.Clone(paths)), func(path string) bool {
		return slices.ContainsFunc(paths, func(other string) bool { return strings.HasPrefix(other, path+".") })
	})
}

// valuesSchema finds the fields of its definitions.
type valuesSchema struct{ definitions map[string]any }

func newValuesSchema(t *testing.T) valuesSchema {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal([]byte(read(t, chart+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	return valuesSchema{definitions: at[map[string]any](schema, "$defs")}
}

// fields are the paths of the fields below a definition or a part of one.
func (s valuesSchema) fields(of map[string]any) (paths []string) {
	if name, isReference := of["$ref"].(string); isReference {
		return s.fields(at[map[string]any](s.definitions, strings.TrimPrefix(name, "#/$defs/")))
	}
	if items, isList := of["items"].(map[string]any); isList {
		return s.fields(items)
	}
	for name, property := range at[map[string]any](of, "properties") {
		below := s.fields(property.(map[string]any))
		for _, path := range below {
			paths = append(paths, name+"."+path)
		}
		if len(below) == 0 {
			paths = append(paths, name)
		}
	}
	return sorted(paths)
}

// theCharts are the fields of a policy that are not passed on.
func theCharts(t *testing.T) []string {
	t.Helper()
	line := regexp.MustCompile(`(?m)\$backend := omit \.(.*) -}}$`).FindStringSubmatch(read(t, chart+"/templates/_config.tpl"))
	return strings.Fields(strings.ReplaceAll(line[1], `"`, ""))
}

// TestTheSchemaHasEachFieldOfTheGateway expects that whatever the gateway reads can be set, and goes to the gateway.
func TestTheSchemaHasEachFieldOfTheGateway(t *testing.T) {
	schema := newValuesSchema(t)
	isTheCharts := func(fields []string) func(string) bool {
		return func(path string) bool {
			return slices.ContainsFunc(fields, func(field string) bool { return path == field || strings.HasPrefix(path, field+".") })
		}
	}
	// Other values set these; contradictions_test.go has what helm says.
	tls := isTheCharts([]string{"extender.tls", "metrics.tls", "admin.tls"})
	expectSame(t, "config",
		slices.DeleteFunc(schema.fields(at[map[string]any](schema.definitions, "config")), tls),
		slices.DeleteFunc(documented(t, "### The gateway", "### Backends"), tls))
	expectSame(t, "policies",
		slices.DeleteFunc(schema.fields(at[map[string]any](schema.definitions, "policy")), isTheCharts(theCharts(t))),
		documented(t, "### Backends", "### Durations"))
}

func expectSame(t *testing.T, value string, schema, gateway []string) {
	t.Helper()
	for _, field := range without(gateway, schema) {
		t.Errorf("values.schema.json has no %s.%s, or _config.tpl keeps it from the gateway", value, field)
	}
	for _, field := range without(schema, gateway) {
		t.Errorf("values.schema.json has %s.%s, which the gateway does not know: remove it, or leave it out in _config.tpl", value, field)
	}
}

func without(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(it string) bool { return slices.Contains(others, it) })
}
