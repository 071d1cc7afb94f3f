// Command generate writes what is generated from the catalogue: the table in
// README.md and catalog/schema.json. It runs in the folder providers.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/oncegate/oncegate/providers/catalog"
	"github.com/oncegate/oncegate/providers/internal/reference"
)

func main() {
	if err := generate(); err != nil {
		log.Fatal(err)
	}
}

func generate() error {
	loaded, err := catalog.Load()
	if err != nil {
		return err
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		return fmt.Errorf("reading the table's place: %w", err)
	}
	readme, err := reference.Readme(string(text), loaded)
	if err != nil {
		return err
	}
	source, err := os.ReadFile("spec.go")
	if err != nil {
		return fmt.Errorf("reading the spec's comments: %w", err)
	}
	schema, err := reference.Schema(source)
	if err != nil {
		return err
	}
	if err := os.WriteFile("README.md", []byte(readme), 0o644); err != nil { //nolint:gosec // a document for everyone
		return fmt.Errorf("writing the table: %w", err)
	}
	if err := os.WriteFile("catalog/schema.json", schema, 0o644); err != nil { //nolint:gosec // a document for everyone
		return fmt.Errorf("writing the schema: %w", err)
	}
	return nil
}
