// Command release makes everything that a release of Oncegate consists of: binaries for each platform, archives, packages for
// Debian and Red Hat, container images, a list of the modules in each binary, and checksums. ./scripts/release calls it.
//
// It is a separate module, so that the go.mod of the product has none of its dependencies.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	var r release
	only := flag.String("only", "", "build these `platforms` only, separated by commas, for example linux/amd64")
	flag.StringVar(&r.source, "source", ".", "a clean clone of the commit to release")
	flag.StringVar(&r.out, "out", "dist", "the `directory` for the files; it must not exist")
	flag.BoolVar(&r.snapshot, "snapshot", false, "release a commit that has no tag")
	flag.Parse()
	platforms, err := choose(*only)
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("%q is no flag", flag.Arg(0))
	}
	if err == nil {
		r.platforms = platforms
		err = r.make()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// platform is an operating system and a processor that a release supports.
type platform struct{ system, processor string }

func (p platform) String() string { return p.system + "/" + p.processor }

// supported are the platforms of a release. On Windows only the command line is supported: it talks to a server elsewhere.
var supported = []platform{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
}

// choose returns the platforms that a list names, or all of them for an empty list.
func choose(list string) ([]platform, error) {
	if list == "" {
		return supported, nil
	}
	var chosen []platform
	for name := range strings.SplitSeq(list, ",") {
		at := slices.IndexFunc(supported, func(p platform) bool { return p.String() == name })
		if at < 0 {
			return nil, fmt.Errorf("a release has no %s; it has %v", name, supported)
		}
		chosen = append(chosen, supported[at])
	}
	return chosen, nil
}

// make makes the files of a release, or none if one of them cannot be made.
func (r *release) make() error {
	if _, err := os.Stat(r.out); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s exists: remove it, or name another directory with --out", r.out)
	}
	work, err := os.MkdirTemp("", "oncegate-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r.work, r.files = work, filepath.Join(work, "files")
	if err := os.Mkdir(r.files, 0o755); err != nil {
		return err
	}
	steps := []func() error{r.readCommit, r.build, r.readVersion, r.describe}
	for _, p := range r.platforms {
		steps = append(steps, func() error { return r.archive(p) }, func() error { return r.listModules(p) })
		if p.system == "linux" {
			steps = append(steps, func() error { return r.packages(p) }, func() error { return r.image(p) })
		}
	}
	for _, step := range append(steps, r.checksums) {
		if err := step(); err != nil {
			return err
		}
	}
	return os.CopyFS(r.out, os.DirFS(r.files))
}
