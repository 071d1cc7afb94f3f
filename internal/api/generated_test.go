package api_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/docs/reference"
	"github.com/oncegate/oncegate/internal/api/openapi"
	"github.com/oncegate/oncegate/internal/trials/npmtest"
)

const (
	// goClient is the module in which generated Go is compiled. generatorPackages has the npm packages with openapi-generator.
	goClient          = "testdata/goclient"
	generatorPackages = "testdata/openapigenerator"

	// oapiCodegen is run by its version, so that its dependencies are in no module of ours.
	oapiCodegen = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
)

// mustRun runs a command in a folder and returns what it prints. The test ends if it fails.
func mustRun(t *testing.T, folder string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	text, err := output(ctx, folder, []string{"GOWORK=off", "CGO_ENABLED=0"}, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, text)
	}
	return text
}

// goModule makes a copy of goClient in a new folder, for code that is generated into it.
func goModule(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		npmtest.Copy(t, filepath.Join(goClient, name), filepath.Join(folder, name))
	}
	return folder
}

func writeFile(t *testing.T, content []byte, path ...string) {
	t.Helper()
	at := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The client that oapi-codegen makes with its defaults compiles, and works with a running server.
func TestOapiCodegensClientWorks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short leaves out what builds a generator and a client; ./scripts/test runs it")
	}
	folder := goModule(t)
	npmtest.Copy(t, filepath.Join(goClient, "exercise.go"), filepath.Join(folder, "exercise.go"))
	writeFile(t, reference.OpenAPI(), folder, "openapi.json")
	writeFile(t, nil, folder, "api", "api.go")
	mustRun(t, folder, "go", "run", oapiCodegen, "-package", "api", "-o", "api/api.go", "openapi.json")
	mustRun(t, folder, "go", "build", "-o", "exercise", ".")

	w := newWorld(t)
	w.fill(t)
	if text, err := output(t.Context(), folder, w.environ(w.Private.URL), filepath.Join(folder, "exercise")); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// The clients that openapi-generator makes with its defaults compile. The versions are those that npm has with the program
// in the package: 4.3.1 of Go and 5.0.0-beta2 of TypeScript, because the other version's client in that language does not
// compile for any description. Both read OpenAPI 3.0.
func TestOpenAPIGeneratorsClientsCompile(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short leaves out what runs a generator in Java; ./scripts/test runs it")
	}
	if _, err := exec.LookPath("java"); err != nil {
		missing := t.Skipf
		if os.Getenv("REQUIRE_JAVA") != "" {
			missing = t.Fatalf
		}
		missing("NOT TESTED: clients of openapi-generator. There is no java: install a Java runtime, 11 or newer")
	}
	packages := npmtest.Modules(t, generatorPackages, "clients of openapi-generator")
	description := filepath.Join(t.TempDir(), "openapi.json")
	writeFile(t, olderForm(t), description)
	generate := func(t *testing.T, version, language, folder string) {
		t.Helper()
		program := filepath.Join(packages, "openapi-generator-"+version, "bin", "openapi-generator.jar")
		mustRun(t, ".", "java", "-XX:TieredStopAtLevel=1", "-jar", program, "generate", "-i", description, "-g", language, "-o", folder)
	}
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		folder := goModule(t)
		client := filepath.Join(folder, "client")
		generate(t, "4", "go", client)
		if err := os.Remove(filepath.Join(client, "go.mod")); err != nil { // the versions are ours
			t.Fatal(err)
		}
		mustRun(t, folder, "go", "build", "./client")
	})
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		generate(t, "5", "typescript-fetch", folder)
		// TypeScript had this name when the generator was made.
		writeFile(t, []byte("type GlobalFetch = WindowOrWorkerGlobalScope\n"), folder, "global.d.ts")
		mustRun(t, folder, "node", filepath.Join(packages, "typescript", "bin", "tsc"), "--noEmit", "--strict", "--target", "es2020", "--module", "esnext",
			"--moduleResolution", "bundler", "--lib", "es2020,dom", "index.ts", "global.d.ts")
	})
}

// olderForm returns the description as OpenAPI 3.0, which writes in another way that a value may be null.
func olderForm(t *testing.T) []byte {
	t.Helper()
	var document map[string]any
	if err := json.Unmarshal(reference.OpenAPI(), &document); err != nil {
		t.Fatal(err)
	}
	document["openapi"] = "3.0.3"
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case []any:
			for _, member := range v {
				walk(member)
			}
		case map[string]any:
			if types, ok := v["type"].([]any); ok && slices.Contains(types, "null") {
				v["type"], v["nullable"] = types[0], true
			}
			if either, ok := v["anyOf"].([]any); ok { // a component, or null
				v["allOf"], v["nullable"] = either[:1], true
				delete(v, "anyOf")
			}
			for _, member := range v {
				walk(member)
			}
		}
	}
	walk(document)
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Generators make types of their own beside those of the schemas, named after an operation with one of these endings.
func TestNoSchemaHasANameThatGeneratorsMake(t *testing.T) {
	t.Parallel()
	document, err := openapi.Build("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for name := range document.Components.Schemas {
		for _, ending := range []string{"Request", "Response", "Responses", "Params", "Data", "Error", "Errors", "Api", "ApiService", "Opts"} {
			if strings.HasSuffix(name, ending) {
				t.Errorf("the schema %s ends in %s, as types that generators make", name, ending)
			}
		}
		if other, known := seen[strings.ToLower(name)]; known {
			t.Errorf("the schemas %s and %s would be one file where case does not count", name, other)
		}
		seen[strings.ToLower(name)] = name
	}
	for name := range document.Components.Responses {
		if other, known := seen[strings.ToLower(name)]; known {
			t.Errorf("the response %s has the name of the schema %s", name, other)
		}
	}
	for path, item := range document.Paths.Map() {
		for _, operation := range item.Operations() {
			if body := operation.RequestBody; body != nil && body.Value.Content.Get("application/json").Schema.Ref == "" {
				t.Errorf("%s: the body of %s is an inline schema, for which generators make up a name", path, operation.OperationID)
			}
		}
	}
}
