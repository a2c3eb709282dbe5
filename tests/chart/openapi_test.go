package chart

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas are Kubernetes' own definitions of its objects.
type schemas struct {
	compiler *jsonschema.Compiler
	// names are those of definitions, by group, version and kind.
	names map[string]string
}

const swagger = "swagger.json"

// openAPI reads the schema that k8s.io/kubernetes carries, in the version that the other tests run.
func openAPI(t *testing.T) schemas {
	t.Helper()
	command := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes")
	command.Dir = ".."
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(read(t, filepath.Join(module.Dir, "api/openapi-spec", swagger))))
	if err != nil {
		t.Fatal(err)
	}
	s := schemas{compiler: jsonschema.NewCompiler(), names: map[string]string{}}
	for name, definition := range document.(map[string]any)["definitions"].(map[string]any) {
		s.add(name, definition.(map[string]any))
	}
	if err := s.compiler.AddResource(swagger, document); err != nil {
		t.Fatal(err)
	}
	return s
}

// add makes a definition strict and remembers its kinds.
func (s schemas) add(name string, definition map[string]any) {
	if definition["properties"] != nil {
		definition["additionalProperties"] = false
	}
	switch name {
	// Swagger 2 cannot say that numbers are allowed, too.
	case "io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity":
		definition["type"] = []any{"string", "number"}
	}
	kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
	for _, kind := range kinds {
		k := kind.(map[string]any)
		s.names[fmt.Sprint(k["group"], "/", k["version"], "/", k["kind"])] = name
	}
}

// isCustom is whether the object is of a CustomResourceDefinition.
func (s schemas) isCustom(o object) bool {
	group, _, _ := strings.Cut(o["apiVersion"].(string), "/")
	return group == "monitoring.coreos.com" || group == "cert-manager.io"
}

func (s schemas) validate(o object) error {
	version := o["apiVersion"].(string)
	if !strings.Contains(version, "/") {
		version = "/" + version
	}
	name, ok := s.names[version+"/"+o.kind()]
	if !ok {
		return fmt.Errorf("there is no %s %s", version, o.kind())
	}
	schema, err := s.compiler.Compile(swagger + "#/definitions/" + name)
	if err != nil {
		return err
	}
	return schema.Validate(map[string]any(o))
}

// TestTheSchemaIsStrict makes mistakes that a lenient one would accept.
func TestTheSchemaIsStrict(t *testing.T) {
	s := openAPI(t)
	service := func(spec map[string]any) object {
		return object{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "a"}, "spec": spec}
	}
	port := func(key string, value any) map[string]any {
		return map[string]any{"ports": []any{map[string]any{"port": 1.0, key: value}}}
	}
	if err := s.validate(service(port("targetPort", "grpc"))); err != nil {
		t.Error(err)
	}
	for _, bad := range []object{
		service(port("targetPrt", "grpc")),
		service(port("port", "grpc")),
		service(map[string]any{"selector": map[string]any{"a": 1.0}}),
		{"apiVersion": "v2", "kind": "Service"},
	} {
		if s.validate(bad) == nil {
			t.Errorf("accepted: %v", bad)
		}
	}
}
