package objectstore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// directory is a store in a directory of this machine, or of a file system that several machines share.
type directory string

func (d directory) String() string { return "file://" + string(d) }

func (d directory) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// Put implements [Store]. A reader sees the whole object or none, because the file is renamed into place.
func (d directory) Put(_ context.Context, name string, content []byte) error {
	path := d.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := writeSynced(path+".part", content); err != nil {
		return err
	}
	if err := os.Rename(path+".part", path); err != nil {
		return err
	}
	// The names on the way to the file are as durable as the file.
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if err := syncDirectory(dir); err != nil {
			return err
		}
		if dir == filepath.Clean(string(d)) {
			break
		}
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() != int64(len(content)) {
		err = ErrCut
	}
	return err
}

func writeSynced(path string, content []byte) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(content); err != nil {
		return err
	}
	return file.Sync()
}

func syncDirectory(path string) (err error) {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return dir.Sync()
}

// Read implements [Store].
func (d directory) Read(_ context.Context, name string, offset, length int64) (_ []byte, err error) {
	file, err := os.Open(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := make([]byte, length)
	if _, err := file.ReadAt(out, offset); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, ErrCut
		}
		return nil, err
	}
	return out, nil
}

// Delete implements [Store].
func (d directory) Delete(_ context.Context, name string) error {
	err := os.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(d.path(name)))
}

// Keeps implements [Store]: a file system with snapshots does not say so.
func (d directory) Keeps(context.Context) (string, error) { return "", nil }
