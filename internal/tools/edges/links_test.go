package edges_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// link matches a name in brackets, with which a comment links to a declaration of the package, of a
// type, or of another package.
var link = regexp.MustCompile(`\[\*?([A-Za-z]\w*(?:\.[A-Za-z]\w*){0,2})\]`)

// declared contains the declarations of a directory: names, members as Type.Member, and the name of
// its package.
type declared struct {
	name    string
	symbols map[string]bool
	files   []*ast.File
}

// TestLinksInCommentsLead checks that each link in a comment names an existing declaration, in its
// own package or in the package that it names, so that renaming a declaration requires updating its
// links. It ignores links into other modules.
func TestLinksInCommentsLead(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	folders := parse(t, files, filepath.Join("..", "..", ".."))
	if len(folders) < 20 {
		t.Fatalf("only %d folders with Go files were found", len(folders))
	}
	packages := map[string][]*declared{}
	for _, folder := range folders {
		packages[folder.name] = append(packages[folder.name], folder)
	}
	leads := func(from *declared, name string) bool {
		if from.symbols[name] {
			return true
		}
		first, rest, qualified := strings.Cut(name, ".")
		if !qualified {
			return !ast.IsExported(name) || len(name) < 3 // a word in brackets
		}
		ours := packages[first]
		return ours == nil && !from.symbols[first] || slices.ContainsFunc(ours, func(d *declared) bool { return d.symbols[rest] })
	}
	for _, folder := range folders {
		for _, file := range folder.files {
			for _, comment := range file.Comments {
				for _, match := range link.FindAllStringSubmatch(comment.Text(), -1) {
					if !leads(folder, match[1]) {
						t.Errorf("%s: %s leads nowhere", files.Position(comment.Pos()), match[0])
					}
				}
			}
		}
	}
}

// parse parses every Go file of the module.
func parse(t *testing.T, files *token.FileSet, root string) map[string]*declared {
	t.Helper()
	folders := map[string]*declared{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if folders[dir] == nil {
			folders[dir] = &declared{symbols: map[string]bool{}}
		}
		folders[dir].add(file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

func (d *declared) add(file *ast.File) {
	d.files = append(d.files, file)
	if name := file.Name.Name; !strings.HasSuffix(name, "_test") {
		d.name = name
	}
	for _, declaration := range file.Decls {
		switch declaration := declaration.(type) {
		case *ast.FuncDecl:
			name := declaration.Name.Name
			if declaration.Recv != nil {
				name = receiver(declaration.Recv.List[0].Type) + "." + name
			}
			d.symbols[name] = true
		case *ast.GenDecl:
			for _, spec := range declaration.Specs {
				d.addSpec(spec)
			}
		}
	}
}

func (d *declared) addSpec(spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			d.symbols[name.Name] = true
		}
	case *ast.TypeSpec:
		d.symbols[spec.Name.Name] = true
		var members *ast.FieldList
		switch of := spec.Type.(type) {
		case *ast.StructType:
			members = of.Fields
		case *ast.InterfaceType:
			members = of.Methods
		default:
			return
		}
		for _, member := range members.List {
			for _, name := range member.Names {
				d.symbols[spec.Name.Name+"."+name.Name] = true
			}
		}
	}
}

// receiver returns the name of a method's type.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}
