package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// release contains the options of a release, and its state while it is made.
type release struct {
	source, out string
	snapshot    bool
	platforms   []platform

	work  string    // a directory that goes away
	files string    // the directory in it with the finished files
	time  time.Time // of the commit: every file has this time, so that the same commit makes the same files
	// version is the version that the Go toolchain writes into the binaries, without the v: the tag, or a pseudo-version.
	version string
}

// tagged matches the versions of releases. A pre-release has a part after a hyphen.
var tagged = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$`)

// readCommit reads the time of the commit.
func (r *release) readCommit() error {
	out, err := r.run(r.source, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if err != nil {
		return err
	}
	r.time = time.Unix(seconds, 0).UTC()
	return nil
}

// binary returns where the binary of a platform is.
func (r *release) binary(p platform) string {
	name := "oncegate"
	if p.system == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.work, p.system+"_"+p.processor, name)
}

// build builds the binary of each platform. Paths of this machine stay out of it (-trimpath), and the toolchain writes the
// version of the tag and the commit into it.
func (r *release) build() error {
	for _, p := range r.platforms {
		began := time.Now()
		env := []string{"CGO_ENABLED=0", "GOFLAGS=", "GOOS=" + p.system, "GOARCH=" + p.processor, "GOAMD64=v1", "GOARM64=v8.0"}
		if _, err := r.run(r.source, env, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", r.binary(p), "./cmd/oncegate"); err != nil {
			return err
		}
		info, err := os.Stat(r.binary(p))
		if err != nil {
			return err
		}
		fmt.Printf("%-14s %5.1f MB  %s\n", p, float64(info.Size())/1e6, time.Since(began).Round(time.Second))
	}
	return nil
}

// readVersion reads the version from the binaries, and refuses one that is no release.
func (r *release) readVersion() error {
	for _, p := range r.platforms {
		info, err := buildinfo.ReadFile(r.binary(p))
		if err != nil {
			return err
		}
		switch v := info.Main.Version; {
		case strings.HasSuffix(v, "+dirty"):
			return fmt.Errorf("the source has changes that no commit has (%s)", v)
		case !r.snapshot && !tagged.MatchString(v):
			return fmt.Errorf("the commit has no tag of a version, such as v1.2.3 or v1.2.3-rc.1 (the toolchain says %s): tag it, or use --snapshot", v)
		default:
			r.version = strings.TrimPrefix(v, "v")
		}
	}
	return nil
}

// describe makes the manual pages and the completions with the source itself, because they belong to this version.
func (r *release) describe() error {
	env := []string{"CGO_ENABLED=0", "SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.time.Unix(), 10)}
	if _, err := r.run(r.source, env, "go", "run", "./cmd/internal/man/write", filepath.Join(r.work, "man")); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(r.work, "completions"), 0o755); err != nil {
		return err
	}
	for shell, name := range completions {
		out, err := r.run(r.source, env, "go", "run", "./cmd/oncegate", "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.work, "completions", name), []byte(out), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// completions are the names under which the shells look for the completions of oncegate.
var completions = map[string]string{"bash": "oncegate", "zsh": "_oncegate", "fish": "oncegate.fish"}

// run runs a command and returns what it printed. If it fails, the error has what it said.
func (r *release) run(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}
