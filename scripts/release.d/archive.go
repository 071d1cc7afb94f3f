package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// entry is a file of an archive.
type entry struct {
	name string // in the archive, below its directory
	path string // on the disk
	mode fs.FileMode
}

// shipped are the files and directories of the source that belong to every archive.
var shipped = []string{"LICENSE", "README.md", "CHANGELOG.md", "compose.yaml", "deploy"}

// archive writes the archive of a platform: the binary, manual pages, completions, and configurations for what runs in front of Oncegate.
func (r *release) archive(p platform) error {
	entries := []entry{{filepath.Base(r.binary(p)), r.binary(p), 0o755}}
	for _, name := range shipped {
		found, err := below(filepath.Join(r.source, name), name)
		if err != nil {
			return err
		}
		entries = append(entries, found...)
	}
	for _, name := range []string{"man", "completions"} {
		found, err := below(filepath.Join(r.work, name), name)
		if err != nil {
			return err
		}
		entries = append(entries, found...)
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	name := fmt.Sprintf("oncegate_%s_%s_%s", r.version, p.system, p.processor)
	if p.system == "windows" {
		return r.write(name+".zip", func(w io.Writer) error { return r.zip(w, name, entries) })
	}
	return r.write(name+".tar.gz", func(w io.Writer) error { return r.tar(w, name, entries) })
}

// below returns the files below a path, by their name in the archive.
func below(path, name string) ([]entry, error) {
	var found []entry
	err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) == ".go" { // the tests of the configurations stay in the repository
			return err
		}
		rest, err := filepath.Rel(path, file)
		if err != nil {
			return err
		}
		found = append(found, entry{filepath.ToSlash(filepath.Join(name, rest)), file, 0o644})
		return nil
	})
	return found, err
}

// write writes a file of the release.
func (r *release) write(name string, content func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(r.files, name))
	if err != nil {
		return err
	}
	if err := content(f); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.Close()
}

// tar writes a compressed tar archive. All owners are 0 and all times are the time of the commit, so that every machine writes the same bytes.
func (r *release) tar(w io.Writer, dir string, entries []entry) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := r.plainTar(compressed, dir, entries); err != nil {
		return err
	}
	return compressed.Close()
}

func (r *release) plainTar(w io.Writer, dir string, entries []entry) error {
	archive := tar.NewWriter(w)
	for _, e := range entries {
		content, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: filepath.ToSlash(filepath.Join(dir, e.name)), Size: int64(len(content)),
			Mode: int64(e.mode), ModTime: r.time, Format: tar.FormatPAX,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (r *release) zip(w io.Writer, dir string, entries []entry) error {
	archive := zip.NewWriter(w)
	for _, e := range entries {
		content, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: dir + "/" + e.name, Method: zip.Deflate, Modified: r.time}
		header.SetMode(e.mode)
		file, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := file.Write(content); err != nil {
			return err
		}
	}
	return archive.Close()
}
