package config

import (
	"fmt"
	"slices"
	"strings"
)

// otherVariables are the environment variables that override no key, with what they set.
// Each also has a twin NAME_FILE that names a file with the value.
var otherVariables = []Variable{
	{"ONCEGATE_ACTOR", "who decides, for the audit"},
	{"ONCEGATE_CONFIG", "the configuration file; ./oncegate.yml by default, if there is one"},
	{"ONCEGATE_FORWARD_ALLOW", "allow of the target that ONCEGATE_FORWARD_URL makes, separated by commas"},
	{"ONCEGATE_FORWARD_IDEMPOTENT", "idempotent of the target that ONCEGATE_FORWARD_URL makes"},
	{"ONCEGATE_FORWARD_SIGN_SECRET", "sign of the target that ONCEGATE_FORWARD_URL makes"},
	{"ONCEGATE_FORWARD_URL", "a forward target for the source that ONCEGATE_SOURCE_PROVIDER makes"},
	{"ONCEGATE_ROLE", "the roles of serve: receive,work"},
	{"ONCEGATE_SOURCE_NAME", "the name of the source that ONCEGATE_SOURCE_PROVIDER makes; the provider's name by default"},
	{"ONCEGATE_SOURCE_PREVIOUS_SECRET", "the secret before a rotation, still accepted"},
	{"ONCEGATE_SOURCE_PROVIDER", "makes one source without a file"},
	{"ONCEGATE_SOURCE_SECRET", "the secret of that source"},
	{"ONCEGATE_TOKEN", "the token that commands send to --server"},
	{"ONCEGATE_URL", "the server that `oncegate call` calls"},
}

// foreign lists prefixes of variables that other parts of the project read.
var foreign = []string{"ONCEGATE_DEV_", "ONCEGATE_TEST_", "ONCEGATE_FAIL", "ONCEGATE_BENCH_", "ONCEGATE_POSTGRES_", "ONCEGATE_RUN_"}

// environment is the environment of the process, with a record of the variables that were used.
type environment struct {
	vars map[string]string
	used map[string]bool
	led  digests // what references led to
}

func newEnvironment(environ []string) *environment {
	e := &environment{vars: map[string]string{}, used: map[string]bool{}, led: digests{}}
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok {
			e.vars[name] = value
		}
	}
	return e
}

// lookup returns the value of name, or the content of the file that NAME_FILE names. An empty
// variable counts as not set.
func (e *environment) lookup(name string) (string, bool, error) {
	e.used[name], e.used[name+"_FILE"] = true, true
	value, path := e.vars[name], e.vars[name+"_FILE"]
	switch {
	case value != "" && path != "":
		return "", false, fmt.Errorf("%s and %s_FILE are both set; use one", name, name)
	case value != "":
		return value, true, nil
	case path != "":
		content, err := ReadSecretFile(path)
		if err != nil {
			return "", false, fmt.Errorf("%s_FILE: %w", name, err)
		}
		return content, true, nil
	}
	return "", false, nil
}

// resolve returns the value of a reference.
func (e *environment) resolve(ref string) (string, error) {
	value, err := e.follow(ref)
	if err == nil {
		e.led.note(ref, value)
	}
	return value, err
}

func (e *environment) follow(ref string) (string, error) {
	if path, ok := strings.CutPrefix(ref, "file:"); ok {
		if path == "" {
			return "", fmt.Errorf("file: names no file")
		}
		return ReadSecretFile(path)
	}
	name := strings.TrimPrefix(ref, "env:")
	if name == "" || strings.ContainsAny(name, "= \t") {
		return "", fmt.Errorf("env: names no environment variable")
	}
	value, ok, err := e.lookup(name)
	if err != nil {
		return "", err
	}
	if !ok {
		if _, set := e.vars[name]; set {
			return "", fmt.Errorf("environment variable %s is empty", name)
		}
		return "", fmt.Errorf("environment variable %s is not set (nor %s_FILE)", name, name)
	}
	return value, nil
}

// unknown returns the variables with the prefix ONCEGATE_ that nothing reads. Most are
// misspellings, which would otherwise leave a setting at its default.
func (e *environment) unknown() []string {
	known := map[string]bool{}
	for _, v := range Variables() {
		known[v.Name] = true
	}
	var out []string
	for name := range e.vars {
		if !strings.HasPrefix(name, "ONCEGATE_") || e.used[name] {
			continue
		}
		if known[strings.TrimSuffix(name, "_FILE")] {
			continue
		}
		if slices.ContainsFunc(foreign, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// has reports whether name or its twin is set.
func (e *environment) has(name string) bool {
	return e.vars[name] != "" || e.vars[name+"_FILE"] != ""
}
