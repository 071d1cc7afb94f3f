package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2" // packages for Debian and Red Hat, without the tools of either
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages writes the .deb and the .rpm of a platform. They contain the binary, the units of systemd with their user, manual pages and
// completions. They start nothing: there is no database yet when a package is installed.
func (r *release) packages(p platform) error {
	contents, err := r.contents(p)
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "oncegate", Arch: p.processor, Platform: "linux", Version: r.version, VersionSchema: "semver",
			Section: "net", Priority: "optional", License: "Apache-2.0", Homepage: "https://github.com/oncegate/oncegate",
			Maintainer:  "The authors of Oncegate <oncegate@users.noreply.github.com>",
			Description: "Webhook inbox on PostgreSQL\nOncegate verifies deliveries of webhooks, records each event once, and carries out its effects.",
			MTime:       r.time,
			Overridables: nfpm.Overridables{
				Contents:   contents,
				Recommends: []string{"ca-certificates"},
				Suggests:   map[string][]string{"deb": {"postgresql"}, "rpm": {"postgresql-server"}}[format],
				Scripts: nfpm.Scripts{
					PostInstall: filepath.Join(r.source, "scripts/release.d/after-install.sh"),
					PreRemove:   filepath.Join(r.source, "scripts/release.d/before-remove.sh"),
					PostRemove:  filepath.Join(r.source, "scripts/release.d/after-remove.sh"),
				},
				RPM: nfpm.RPM{BuildHost: "oncegate", Compression: "xz"},
				Deb: nfpm.Deb{Compression: "xz"},
			},
		})
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return err
		}
		name := fmt.Sprintf("oncegate_%s_linux_%s.%s", r.version, p.processor, format)
		if err := r.write(name, func(w io.Writer) error { return packager.Package(info, w) }); err != nil {
			return err
		}
	}
	return nil
}

// contents returns the files of a package and where they belong.
func (r *release) contents(p platform) (files.Contents, error) {
	file := func(source, destination string, mode os.FileMode) *files.Content {
		return &files.Content{Source: source, Destination: destination, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.time, Owner: "root", Group: "root"}}
	}
	contents := files.Contents{
		file(r.binary(p), "/usr/bin/oncegate", 0o755),
		file(filepath.Join(r.source, "deploy/systemd/oncegate.service"), "/usr/lib/systemd/system/oncegate.service", 0o644),
		file(filepath.Join(r.source, "deploy/systemd/oncegate-migrate.service"), "/usr/lib/systemd/system/oncegate-migrate.service", 0o644),
		file(filepath.Join(r.source, "LICENSE"), "/usr/share/doc/oncegate/copyright", 0o644),
		file(filepath.Join(r.source, "CHANGELOG.md"), "/usr/share/doc/oncegate/CHANGELOG.md", 0o644),
		file(filepath.Join(r.work, "completions/oncegate"), "/usr/share/bash-completion/completions/oncegate", 0o644),
		file(filepath.Join(r.work, "completions/_oncegate"), "/usr/share/zsh/vendor-completions/_oncegate", 0o644),
		file(filepath.Join(r.work, "completions/oncegate.fish"), "/usr/share/fish/vendor_completions.d/oncegate.fish", 0o644),
	}
	// An upgrade keeps the changes of the operator. The file has secrets in it, so only root reads it.
	environment := file(filepath.Join(r.source, "deploy/systemd/oncegate.env"), "/etc/oncegate/oncegate.env", 0o600)
	environment.Type = files.TypeConfigNoReplace
	contents = append(contents, environment)
	pages, err := below(filepath.Join(r.work, "man"), "")
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		compressed, err := r.compress(page.path)
		if err != nil {
			return nil, err
		}
		contents = append(contents, file(compressed, "/usr/share/man/man1/"+page.name+".gz", 0o644))
	}
	return contents, nil
}

// compress compresses a manual page, as distributions ship them, and returns where it is. The header has neither name nor time.
func (r *release) compress(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(content); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	compressed := filepath.Join(r.work, "man.gz", filepath.Base(path)+".gz")
	if err := os.MkdirAll(filepath.Dir(compressed), 0o755); err != nil {
		return "", err
	}
	return compressed, os.WriteFile(compressed, b.Bytes(), 0o644)
}
