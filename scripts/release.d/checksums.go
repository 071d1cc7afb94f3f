package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// checksums writes the SHA-256 of each file in the form that `sha256sum --check` reads, and prints the list.
func (r *release) checksums() error {
	made, err := os.ReadDir(r.files)
	if err != nil {
		return err
	}
	list := ""
	for _, file := range made {
		content, err := os.ReadFile(filepath.Join(r.files, file.Name()))
		if err != nil {
			return err
		}
		list += fmt.Sprintf("%x  %s\n", sha256.Sum256(content), file.Name())
		fmt.Printf("%6.1f MB  %s\n", float64(len(content))/1e6, file.Name())
	}
	return r.write("checksums.txt", func(w io.Writer) error {
		_, err := io.WriteString(w, list)
		return err
	})
}
