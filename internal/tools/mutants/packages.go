package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// pack is one package as `go list` describes it.
type pack struct {
	Dir          string
	ImportPath   string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Module       struct{ Dir, Path string }

	Deps []string

	tests []string   // patterns of the packages whose tests are run
	runs  [][]string // their packages, with the flags that they need
}

// list returns the packages that match patterns.
func list(ctx context.Context, patterns []string) ([]pack, error) {
	return golist(ctx, []string{"-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles,Module", "--"}, patterns)
}

func golist(ctx context.Context, flags, patterns []string) ([]pack, error) {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"list"}, flags, patterns)...) //nolint:gosec // the patterns are the user's own
	text, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("listing packages: %s", strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	var out []pack
	for decoder := json.NewDecoder(strings.NewReader(string(text))); ; {
		var p pack
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("listing packages: %w", err)
		}
		out = append(out, p)
	}
}

// choose selects the tests to run for a package: the package's own tests. If it has none, the tests
// of the nearest directory above it that has some, and of everything below that directory.
func (p *pack) choose(ctx context.Context, named string) error {
	switch {
	case named != "":
		p.tests = strings.Split(named, ",")
	case len(p.TestGoFiles)+len(p.XTestGoFiles) > 0:
		p.tests = []string{p.ImportPath}
	default:
		dir, path := p.Dir, p.ImportPath
		for dir != p.Module.Dir && strings.HasPrefix(dir, p.Module.Dir) {
			dir, path = filepath.Dir(dir), path[:strings.LastIndexByte(path, '/')]
			if found, err := filepath.Glob(filepath.Join(dir, "*_test.go")); err == nil && len(found) > 0 {
				break
			}
		}
		p.tests = []string{path + "/..."}
	}
	return p.group(ctx)
}

const rapid = "pgregory.net/rapid"

// group resolves the test patterns to packages. Packages that use rapid run separately, with flags
// that other packages do not know: without them rapid writes a file into the tree for each failure,
// and searches for a smaller failing case for half a minute.
func (p *pack) group(ctx context.Context) error {
	found, err := golist(ctx, []string{"-test", "-json=ImportPath,Deps", "--"}, p.tests)
	if err != nil {
		return err
	}
	var plain, random []string
	for i := range found {
		path, ok := strings.CutSuffix(found[i].ImportPath, ".test")
		switch {
		case !ok: // a package, not its tests
		case slices.Contains(found[i].Deps, rapid):
			random = append(random, path)
		default:
			plain = append(plain, path)
		}
	}
	if len(plain) > 0 {
		p.runs = append(p.runs, plain)
	}
	if len(random) > 0 {
		p.runs = append(p.runs, append(random, "-rapid.nofailfile", "-rapid.shrinktime=1ms"))
	}
	if len(p.runs) == 0 {
		return fmt.Errorf("%s has no tests: name the packages of some with --tests", strings.Join(p.tests, " "))
	}
	return nil
}

// mutations returns all mutations of the package's files, in source order. It ignores generated
// files.
func (p *pack) mutations() ([]mutation, error) {
	var out []mutation
	for _, name := range slices.Sorted(slices.Values(p.GoFiles)) {
		path := filepath.Join(p.Dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading a package: %w", err)
		}
		found, err := mutate(path, source)
		if err != nil {
			return nil, err
		}
		for i := range found {
			found[i].pack = p
		}
		out = append(out, found...)
	}
	return out, nil
}
