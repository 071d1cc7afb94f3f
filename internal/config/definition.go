package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// Definition is a source that the database has instead of the file.
type Definition struct {
	// Name is the name of the source.
	Name string

	// Disabled says that an operator has disabled the source.
	Disabled bool

	// Content is what the file has below the name of a source, as YAML or JSON. It contains secrets.
	Content []byte
}

// Definitions are the sources of the database at one moment.
type Definitions struct {
	// Database is the name of the database that has them. Empty means [DefaultDatabase].
	Database string

	// Revision increases with every change of a definition. It is 0 if there never was one.
	Revision int64

	// Sources are the definitions.
	Sources []Definition
}

// include reads the sources of a directory. Each of its files has one source, whose name is the name of the file.
func (r *reader) include(n *yamltree.Node) {
	directory, ok := n.Text()
	if !ok {
		return
	}
	r.cfg.Include = directory
	if !filepath.IsAbs(directory) {
		directory = filepath.Join(filepath.Dir(r.report.File), directory)
	}
	files, err := os.ReadDir(directory)
	if err != nil {
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			err = at.Err
		}
		n.Fail("reading the directory %s: %v", directory, err)
		return
	}
	for _, file := range files {
		name, yml := strings.CutSuffix(file.Name(), ".yml")
		if file.IsDir() || !yml || strings.HasPrefix(name, ".") {
			continue
		}
		path := filepath.Join(directory, file.Name())
		content, err := os.ReadFile(path)
		if err != nil {
			n.Fail("%v", err)
			continue
		}
		r.apart(name, content, r.report.Part(path))
	}
}

// stored reads the sources of a database. They live there.
func (r *reader) stored(all []Definition, home string) {
	for i := range all {
		d := &all[i]
		part := r.report.Part("source " + d.Name + " of the database")
		part.Unplaced = true
		r.storing, r.storedSecrets = true, 0
		if s := r.apart(d.Name, d.Content, part); s != nil {
			s.Stored, s.Database, s.Disabled = true, home, s.Disabled || d.Disabled
		}
		r.storing = false
	}
}

// apart reads a source from a document that contains nothing else.
func (r *reader) apart(name string, content []byte, report *yamltree.Report) *Source {
	n := yamltree.Parse(content, report)
	if n == nil {
		return nil
	}
	n.Place("sources."+name, name)
	if !r.named(n) {
		return nil
	}
	if r.sourceNames[name] {
		n.Fail("the configuration has another source of that name; rename one of them")
		return nil
	}
	if r.storing {
		r.checkStored(n)
	}
	return r.addSource(n)
}

// checkStored refuses keys by which an operator who defines a source would reach the files or the networks of the servers. It also
// refuses former names, because a rename must take effect when the servers start.
func (r *reader) checkStored(n *yamltree.Node) {
	if at := n.Member("previous_names"); at != nil {
		at.FailKey("a source of the database cannot be renamed")
	}
	if at := n.Member("database"); at != nil {
		at.FailKey("the source lives in the database that has it; leave this out")
	}
	if at := n.Member("from"); at != nil {
		at.FailKey("only the file may name a broker, because the servers connect to it")
	}
	if at := n.Member("reconcile").Member("allow"); at != nil {
		at.FailKey("only the file may allow other networks")
	}
	for _, operation := range n.Member("operations").Members() {
		if at := operation.Member("schema"); at != nil {
			at.FailKey("a source of the database has no files; leave the schema out")
		}
	}
}

// storedReference refuses a reference, because it would let an operator use a secret that belongs to the servers.
const storedReference = "a source of the database cannot refer to the environment or the files of a server; write the value itself"

// storedSecret reads a secret that a definition contains itself.
func (r *reader) storedSecret(n *yamltree.Node) (ref Reference, value, name string, ok bool) {
	if n.IsMapping() {
		r.fields(n, ref.storedKeys(&value, &name))
		if value == "" && n.Sound() {
			n.Fail("needs value: TEXT")
		}
	} else {
		value, _ = n.Text()
		if isReference(value) {
			n.Fail("%s", storedReference)
		}
	}
	r.storedSecrets++
	ref.From = fmt.Sprintf("stored:%d", r.storedSecrets)
	return ref, value, name, n.Sound() && value != ""
}
