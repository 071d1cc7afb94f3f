package docs

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// Metric is one family of metrics, as defined in the code.
type Metric struct {
	Name, Kind, Help string
	Labels           []string
}

var metricName = regexp.MustCompile(`^oncegate_[a-z_]+$`)

// Metrics finds every metric in the product's code, wherever its name is next to its help: as two
// arguments, as two fields of a literal, or as Name and Help of options.
func Metrics() ([]Metric, error) {
	all, err := sources()
	if err != nil {
		return nil, err
	}
	var out []Metric
	for _, s := range all {
		if slices.Contains([]string{"docs", "migrations"}, s.file.Name.Name) {
			continue
		}
		finder := &metricFinder{file: s.file, functions: functionsOf(all, s.file.Name.Name)}
		ast.Inspect(s.file, finder.visit)
		out = append(out, finder.found...)
	}
	slices.SortFunc(out, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	for i, m := range out {
		if m.Help == "" {
			return nil, fmt.Errorf("metric %s has no help beside its name", m.Name)
		}
		if i > 0 && out[i-1].Name == m.Name {
			return nil, fmt.Errorf("metric %s is made in two places", m.Name)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no metric was found")
	}
	return out, nil
}

// metrics documents the metrics.
func metrics() (string, error) {
	all, err := Metrics()
	if err != nil {
		return "", err
	}
	var rows [][]string
	for _, m := range all {
		labels := make([]string, len(m.Labels))
		for i, label := range m.Labels {
			labels[i] = code(label)
		}
		rows = append(rows, []string{code(m.Name), m.Kind, strings.Join(labels, ", "), m.Help})
	}
	return table([]string{"metric", "type", "labels", "meaning"}, rows), nil
}

type metricFinder struct {
	file      *ast.File
	functions map[string]ast.Node // by name: the package's functions, and the local ones found so far
	inside    []ast.Node
	found     []Metric
}

func (f *metricFinder) visit(n ast.Node) bool {
	if n == nil {
		f.inside = f.inside[:len(f.inside)-1]
		return true
	}
	f.inside = append(f.inside, n)
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			name, ok := left.(*ast.Ident)
			if literal, isFunc := n.Rhs[min(i, len(n.Rhs)-1)].(*ast.FuncLit); ok && isFunc {
				f.functions[name.Name] = literal
			}
		}
	case *ast.CallExpr:
		f.add(n.Args)
	case *ast.CompositeLit:
		f.add(n.Elts)
	}
	return true
}

// add records the metric whose name and help are among the parts.
func (f *metricFinder) add(parts []ast.Expr) {
	var m Metric
	for i, part := range parts {
		if pair, ok := part.(*ast.KeyValueExpr); ok {
			key, _ := pair.Key.(*ast.Ident)
			value, isText := text(pair.Value)
			switch {
			case key != nil && key.Name == "Name" && isText && metricName.MatchString(value):
				m.Name = value
			case key != nil && key.Name == "Help" && isText:
				m.Help = value
			}
			continue
		}
		if value, ok := text(part); ok && i+1 < len(parts) && metricName.MatchString(value) {
			if help, ok := text(parts[i+1]); ok {
				m.Name, m.Help = value, help
			}
		}
	}
	if m.Name == "" {
		return
	}
	m.Kind, m.Labels = f.kind(m.Name), f.labels()
	f.found = append(f.found, m)
}

// kind returns the kind of the constructor that encloses the name, or derives the kind from the
// name.
func (f *metricFinder) kind(name string) string {
	if call := f.constructor(); call != nil {
		for _, kind := range []string{"Histogram", "Counter", "Gauge"} {
			if strings.HasPrefix(calledName(call), "New"+kind) {
				return strings.ToLower(kind)
			}
		}
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}

// constructor returns the innermost call that encloses the current node.
func (f *metricFinder) constructor() *ast.CallExpr {
	for _, n := range slices.Backward(f.inside) {
		switch n := n.(type) {
		case *ast.CallExpr:
			return n
		case *ast.FuncDecl:
			return nil
		}
	}
	return nil
}

// labels returns the labels in the arguments of the constructor call, otherwise those in the called
// function, otherwise the labels of a NewDesc call in the same file.
func (f *metricFinder) labels() []string {
	if call := f.constructor(); call != nil {
		for _, arg := range call.Args {
			if labels, ok := textsOf(arg); ok {
				return labels
			}
		}
		return f.labelsMadeBy(f.functions[calledName(call)], 3)
	}
	var labels []string
	ast.Inspect(f.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && calledName(call) == "NewDesc" && len(call.Args) > 2 {
			if found, ok := textsOf(call.Args[2]); ok {
				labels = found
			}
		}
		return true
	})
	return labels
}

func (f *metricFinder) labelsMadeBy(function ast.Node, depth int) []string {
	if function == nil || depth == 0 {
		return nil
	}
	var labels []string
	ast.Inspect(function, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && labels == nil {
			for _, arg := range call.Args {
				if found, ok := textsOf(arg); ok {
					labels = found
				}
			}
			if labels == nil && f.functions[calledName(call)] != function {
				labels = f.labelsMadeBy(f.functions[calledName(call)], depth-1)
			}
		}
		return labels == nil
	})
	return labels
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// textsOf returns the elements of a literal []string.
func textsOf(e ast.Expr) ([]string, bool) {
	literal, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil, false
	}
	kind, ok := literal.Type.(*ast.ArrayType)
	if !ok {
		return nil, false
	}
	if element, ok := kind.Elt.(*ast.Ident); !ok || element.Name != "string" {
		return nil, false
	}
	var out []string
	for _, element := range literal.Elts {
		if value, ok := text(element); ok {
			out = append(out, value)
		}
	}
	return out, true
}

// functionsOf returns the functions of a package, by name.
func functionsOf(all []source, pkg string) map[string]ast.Node {
	out := map[string]ast.Node{}
	for _, s := range all {
		for _, decl := range s.file.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok && function.Recv == nil && s.file.Name.Name == pkg {
				out[function.Name.Name] = function
			}
		}
	}
	return out
}
