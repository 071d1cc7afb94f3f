package cli_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	nats "github.com/nats-io/nats-server/v2/server"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

const root = "../../.."

// composed contains the parts of a Compose file that the tests need.
type composed struct {
	Services map[string]struct {
		Image, User string
		Profiles    []string
		Entrypoint  []string
		Command     []string
		Environment map[string]string
		Secrets     []string
		ReadOnly    bool `yaml:"read_only"`
		Healthcheck struct{ Test []string }
	}
	Secrets map[string]struct{ File, Environment string }
}

func composeFile(t *testing.T) ([]byte, composed) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file composed
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	return content, file
}

// Compose accepts the file: it conforms to the schema that Compose itself uses.
func TestComposeFileFitsTheSchema(t *testing.T) {
	t.Parallel()
	content, _ := composeFile(t)
	schema, err := os.ReadFile("testdata/compose/compose-spec.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("compose-spec.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("compose-spec.json")
	if err != nil {
		t.Fatal(err)
	}
	validate := func(content string) error {
		asJSON, err := yaml.YAMLToJSON([]byte(content))
		if err != nil {
			return err
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
		if err != nil {
			return err
		}
		return compiled.Validate(value)
	}
	if err := validate(string(content)); err != nil {
		t.Error(err)
	}
	for _, mistake := range []struct{ right, wrong string }{
		{"read_only: true", "readonly: true"}, {"retries: 6", "retries: [6]"},
		{"source_secret: { file: ./secrets/source_secret }", "source_secret: ./secrets/source_secret"},
	} {
		if !strings.Contains(string(content), mistake.right) {
			t.Fatalf("the file has no %q any more", mistake.right)
		}
		if validate(strings.Replace(string(content), mistake.right, mistake.wrong, 1)) == nil {
			t.Errorf("%q was taken: the schema is not asked", mistake.wrong)
		}
	}
	// The schema accepts any text as a duration.
	for _, m := range regexp.MustCompile(`(?m)(?:interval|timeout|start_period|stop_grace_period): (\S+)$`).FindAllSubmatch(content, -1) {
		if _, err := time.ParseDuration(string(m[1])); err != nil {
			t.Error(err)
		}
	}
}

// The configuration of the servers of the buffer is one that NATS reads: they write before they acknowledge.
func TestComposeBuffer(t *testing.T) {
	t.Parallel()
	content, _ := composeFile(t)
	var file struct {
		Configs map[string]struct{ Content string }
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(file.Configs["nats"].Content), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := nats.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !o.JetStream || !o.SyncAlways || len(o.Routes) != 3 || o.MaxPayload < 25<<20 {
		t.Errorf("JetStream %t, sync always %t, %d routes, messages of %d bytes", o.JetStream, o.SyncAlways, len(o.Routes), o.MaxPayload)
	}
}

// Compose refuses to start a service with a read-only root and a secret from the environment, but
// the schema allows it.
func TestComposeSecretsAreFiles(t *testing.T) {
	t.Parallel()
	_, file := composeFile(t)
	for name, service := range file.Services {
		mounted := map[string]bool{}
		for _, secret := range service.Secrets {
			mounted["/run/secrets/"+secret] = true
			if service.ReadOnly && file.Secrets[secret].File == "" {
				t.Errorf("service %s is read_only and its secret %s is no file: Compose refuses it", name, secret)
			}
		}
		for variable, value := range service.Environment {
			if strings.HasPrefix(value, "/run/secrets/") {
				if !mounted[value] {
					t.Errorf("service %s reads %s for %s, which none of its secrets is", name, value, variable)
				}
				delete(mounted, value)
			}
		}
		for path := range mounted {
			t.Errorf("service %s mounts %s and reads it for nothing", name, path)
		}
	}
	ignored, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil || !slices.Contains(strings.Split(string(ignored), "\n"), "secrets") {
		t.Errorf("the image is built with everything beside the file, the secrets as well: %v", err)
	}
	for name, secret := range file.Secrets {
		if !strings.HasPrefix(secret.File, "./secrets/") {
			t.Errorf("secret %s is not in ./secrets, which neither git nor the image takes along", name)
		}
	}
}

var (
	interpolated = regexp.MustCompile(`\$\{([A-Z_]+)(?::([-?])([^}]*))?\}`)
	documented   = regexp.MustCompile(`(?m)^#   ([A-Z_]+)=(\S+)`)
	commands     = regexp.MustCompile(`(?m)^#   .*secrets/(\w+)`)
)

// The header of the file documents every variable that the file uses, no others, and all files.
func TestComposeVariablesAreDocumented(t *testing.T) {
	t.Parallel()
	content, file := composeFile(t)
	used, said := map[string]bool{}, map[string]bool{}
	for _, m := range interpolated.FindAllStringSubmatch(string(content), -1) {
		used[m[1]] = true
	}
	for _, m := range documented.FindAllStringSubmatch(string(content), -1) {
		said[m[1]] = true
	}
	if len(used) == 0 || !maps.Equal(used, said) {
		t.Errorf("the file uses %v and its head explains %v", slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(said)))
	}
	made := map[string]bool{}
	for _, m := range commands.FindAllStringSubmatch(string(content), -1) {
		made["./secrets/"+m[1]] = true
	}
	for name, secret := range file.Secrets {
		if !made[secret.File] {
			t.Errorf("nothing at the head of the file makes %s of secret %s", secret.File, name)
		}
	}
}

// The commands that the file gives to the containers run with its environment: they create the
// schema, the service serves, and the health check detects this.
func TestComposeServes(t *testing.T) {
	t.Parallel()
	content, file := composeFile(t)
	database, schema := inboxtest.EmptySchema(t)
	secrets := filepath.Join(t.TempDir(), "secrets")
	if err := os.Mkdir(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"database_url": database, "source_secret": "whsec_compose"} {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dotenv := map[string]string{}
	for _, m := range documented.FindAllStringSubmatch(string(content), -1) {
		dotenv[m[1]] = m[2]
	}
	dotenv["ONCEGATE_LIST_DATABASE_URL"] = database
	dotenv["ONCEGATE_FORWARD_SIGN_SECRET"] += "b25jZWdhdGUtZGV2ZWxvcG1lbnQtc2VjcmV0LTMy"
	public, err := rig.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := rig.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	entrypoint := dockerfileEntrypoint(t)
	run := func(service string, command []string) *exec.Cmd {
		c := exec.Command("oncegate", command...)
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=" + public}
		for name, value := range file.Services[service].Environment {
			value = interpolated.ReplaceAllStringFunc(value, func(s string) string { return dotenv[interpolated.FindStringSubmatch(s)[1]] })
			value = strings.Replace(value, "/run/secrets", secrets, 1)
			if name == "ONCEGATE_ADMIN" { // the value of the file, with a free port
				value = strings.TrimSuffix(value, "8081") + admin[strings.LastIndexByte(admin, ':')+1:]
			}
			c.Env = append(c.Env, name+"="+value)
		}
		return c
	}
	check := file.Services["oncegate"].Healthcheck.Test
	if len(check) < 2 || check[0] != "CMD" || check[1] != entrypoint {
		t.Fatalf("the health check %v does not run the image's only program, %s", check, entrypoint)
	}
	if out, err := run("oncegate", check[2:]).CombinedOutput(); err == nil {
		t.Fatalf("healthy before anything runs: %s", out)
	}
	if out, err := run("migrate", file.Services["migrate"].Command).CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}
	serve := run("oncegate", file.Services["oncegate"].Command)
	var log bytes.Buffer
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for healthy := false; !healthy; {
		select {
		case err := <-ended:
			t.Fatalf("serve ended: %v\n%s", err, log.String())
		case <-deadline:
			_ = serve.Process.Kill()
			t.Fatalf("not healthy within a minute, and ended by force: %v\n%s", <-ended, log.String())
		case <-tick.C:
			healthy = run("oncegate", check[2:]).Run() == nil
		}
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("serve: %v\n%s", err, log.String())
	}
}

func dockerfileEntrypoint(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ENTRYPOINT (\[.*\])$`).FindSubmatch(content)
	if found == nil {
		t.Fatal("the Dockerfile has no ENTRYPOINT")
	}
	var program []string
	if err := json.Unmarshal(found[1], &program); err != nil || len(program) != 1 {
		t.Fatalf("ENTRYPOINT %s: %v", found[1], err)
	}
	return program[0]
}
