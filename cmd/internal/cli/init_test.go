package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// wantsVariable matches the variables that a configuration names.
var wantsVariable = regexp.MustCompile(`env: ?"?([A-Z0-9_]+)`)

// For every provider of the catalogue, `oncegate init` writes a file that `oncegate config check` takes once the
// variables are set, or names what it needs. Without the settings that a provider requires, it names them.
func TestInitKnowsEveryProvider(t *testing.T) {
	t.Parallel()
	all := catalogtest.Load(t)
	if len(all) < 200 {
		t.Fatalf("the catalogue has %d providers", len(all))
	}
	for name, p := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			file := filepath.Join(directory, "oncegate.yml")
			environ := []string{"DATABASE_URL=postgres://oncegate:secret@127.0.0.1:1/oncegate"}
			run := func(args ...string) (int, string) {
				var out, problems bytes.Buffer
				code := cli.Main(args, environ, strings.NewReader(""), &out, &problems)
				return code, out.String() + problems.String()
			}
			args := []string{"init", "--file", file, "--provider", name, "--forward", "https://billing.example/hooks", "--public-url", "https://hooks.example.com"}
			if p.IsMessage() {
				if code, said := run(args...); code != 2 || !strings.Contains(said, "broker") {
					t.Errorf("exit code %d: %s", code, said)
				}
				return
			}
			secret, ca := providertest.SecretOf(t, testdata.Files, name)
			certificates := filepath.Join(directory, "ca.pem")
			if err := os.WriteFile(certificates, []byte(ca), 0o600); err != nil {
				t.Fatal(err)
			}
			var settings []string
			for i := range p.Spec().Settings {
				spec := &p.Spec().Settings[i]
				if !spec.Required || spec.Secret {
					continue
				}
				for _, example := range spec.Example {
					if strings.HasPrefix(example, "file:") {
						example = "file:" + certificates
					}
					settings = append(settings, "--setting", name+"."+spec.Name+"="+example)
				}
				if code, said := run(args...); code != 2 || !strings.Contains(said, "--setting "+name+"."+spec.Name+"=") {
					t.Errorf("without settings, the exit code is %d: %s", code, said)
				}
			}
			if code, said := run(append(args, settings...)...); code != 0 || !strings.Contains(said, "https://hooks.example.com/in/"+name+"\n") {
				t.Fatalf("exit code %d: %s", code, said)
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, variable := range wantsVariable.FindAllStringSubmatch(string(content), -1) {
				value := "user:password"
				if variable[1] == strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"_SECRET" {
					value = secret
				}
				if variable[1] != "DATABASE_URL" && variable[1] != "NAME" {
					environ = append(environ, variable[1]+"="+value)
				}
			}
			if code, said := run("config", "check", "--config", file); code != 0 {
				t.Errorf("exit code %d: %s\n%s", code, said, content)
			}
		})
	}
}
