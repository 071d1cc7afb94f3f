package providers

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Problem is one thing wrong with a spec.
type Problem struct {
	Provider string
	// Line is 1-based; 0 where none is known.
	Line int
	// Path is the key, such as verify.signature.headers.
	Path string
	Text string
}

// Error gives provider, line, path and text in one line.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "provider %s: ", p.Provider)
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// decoder lays a YAML document over a Spec and collects everything that does
// not fit. It is our own because a library stops at the first unknown key, and
// because checks made later want the line of a key that did decode.
type decoder struct {
	name     string
	lines    map[string]int
	problems []*Problem
	formJSON string // the form field that is the body's document
	baseless bool   // it extends a provider that is not known
	extended *Provider
}

// maxSpecDepth ends the descent into hostile documents.
const maxSpecDepth = 32

func (d *decoder) problem(line int, path, format string, args ...any) {
	d.problems = append(d.problems, &Problem{Provider: d.name, Line: line, Path: path, Text: fmt.Sprintf(format, args...)})
}

// at reports a problem of a key that was decoded, or of the nearest key around it.
func (d *decoder) at(path, format string, args ...any) {
	line, key := 0, path
	for {
		if n, ok := d.lines[key]; ok {
			line = n
			break
		}
		i := strings.LastIndexAny(key, ".[")
		if i < 0 {
			break
		}
		key = key[:i]
	}
	d.problem(line, path, format, args...)
}

func parseDocument(name string, yaml []byte) (ast.Node, error) {
	file, err := parser.ParseBytes(yaml, 0)
	if err != nil {
		// The library's message spans lines and shows the source; the first line says it all.
		text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		return nil, &Problem{Provider: name, Text: "reading YAML: " + text}
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return nil, &Problem{Provider: name, Line: doc.Body.GetToken().Position.Line, Text: "one document is expected"}
		}
		body = doc.Body
	}
	if body == nil {
		return nil, &Problem{Provider: name, Text: "the document is empty"}
	}
	return body, nil
}

func line(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 0
	}
	return n.GetToken().Position.Line
}

func pairs(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

var (
	durationType = reflect.TypeFor[Duration]()
	sizeType     = reflect.TypeFor[Size]()
	partType     = reflect.TypeFor[Part]()
)

func (d *decoder) value(n ast.Node, v reflect.Value, path string, depth int) {
	if depth > maxSpecDepth {
		d.problem(line(n), path, "nested too deeply")
		return
	}
	switch {
	case v.Type() == durationType:
		d.duration(n, v, path)
		return
	case v.Type() == sizeType:
		d.size(n, v, path)
		return
	case v.Type() == partType:
		if s, ok := n.(*ast.StringNode); ok {
			v.Set(reflect.ValueOf(Part{Word: s.Value}))
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, path, depth)
	case reflect.Slice:
		d.list(n, v, path, depth)
	case reflect.Map:
		d.mapping(n, v, path, depth)
	case reflect.String:
		if s, ok := text(n); ok {
			v.SetString(s)
		} else {
			d.problem(line(n), path, "a text is expected")
		}
	case reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
		} else {
			d.problem(line(n), path, "true or false is expected")
		}
	case reflect.Int:
		i, err := strconv.Atoi(n.GetToken().Value)
		if _, ok := n.(*ast.IntegerNode); !ok || err != nil {
			d.problem(line(n), path, "a whole number is expected")
			return
		}
		v.SetInt(int64(i))
	default:
		d.problem(line(n), path, "cannot be set")
	}
}

// text takes scalars as they are written, so that a value which happens to look
// like a number needs no quotes.
func text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// key reads the name of a member. A merge key has no value of its own: what it brings in
// would be left out without a word.
func (d *decoder) key(pair *ast.MappingValueNode, path string) (string, bool) {
	if pair.Key.IsMergeKey() {
		d.problem(line(pair.Key), path, "merge keys (<<) are not supported; write the keys out")
		return "", false
	}
	key, ok := text(pair.Key)
	if !ok {
		d.problem(line(pair.Key), path, "keys must be plain names")
	}
	return key, ok
}

func (d *decoder) structure(n ast.Node, v reflect.Value, path string, depth int) {
	values, ok := pairs(n)
	if !ok {
		d.problem(line(n), path, "a mapping is expected")
		return
	}
	for _, pair := range values {
		key, ok := d.key(pair, path)
		if !ok {
			continue
		}
		where := join(path, key)
		field, ok := fieldByTag(v, key)
		if !ok {
			d.problem(line(pair.Key), where, "unknown key (known: %s)", strings.Join(tags(v.Type()), ", "))
			continue
		}
		d.lines[where] = line(pair.Key)
		d.value(pair.Value, field, where, depth+1)
	}
}

func (d *decoder) list(n ast.Node, v reflect.Value, path string, depth int) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		// One element may stand alone.
		one := reflect.MakeSlice(v.Type(), 1, 1)
		if _, null := n.(*ast.NullNode); null {
			d.problem(line(n), path, "a list is expected")
			return
		}
		d.value(n, one.Index(0), path, depth+1)
		v.Set(one)
		return
	}
	out := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, item := range seq.Values {
		where := path + "[" + strconv.Itoa(i) + "]"
		d.lines[where] = line(item)
		d.value(item, out.Index(i), where, depth+1)
	}
	v.Set(out)
}

func (d *decoder) mapping(n ast.Node, v reflect.Value, path string, depth int) {
	values, ok := pairs(n)
	if !ok {
		d.problem(line(n), path, "a mapping is expected")
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, pair := range values {
		key, ok := d.key(pair, path)
		if !ok {
			continue
		}
		where := join(path, key)
		d.lines[where] = line(pair.Key)
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(pair.Value, item, where, depth+1)
		out.SetMapIndex(reflect.ValueOf(key), item)
	}
	v.Set(out)
}

func (d *decoder) duration(n ast.Node, v reflect.Value, path string) {
	s, ok := text(n)
	if !ok {
		d.problem(line(n), path, "a duration such as 300s or 30d is expected")
		return
	}
	if s == "none" {
		v.SetInt(int64(Off))
		return
	}
	span, err := parseSpan(s)
	if err != nil {
		d.problem(line(n), path, "a duration such as 300s or 30d is expected")
		return
	}
	v.SetInt(int64(span))
}

func parseSpan(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		days, rest = "0", s
	}
	n, err := strconv.Atoi(days)
	if err != nil || n < 0 || n > 36500 {
		return 0, errors.New("out of range")
	}
	var span time.Duration
	if rest != "" {
		if span, err = time.ParseDuration(rest); err != nil || span < 0 {
			return 0, errors.New("not a duration")
		}
	}
	return time.Duration(n)*24*time.Hour + span, nil
}

func (d *decoder) size(n ast.Node, v reflect.Value, path string) {
	s, _ := text(n)
	factor := int64(1)
	for suffix, f := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, factor = strings.TrimSpace(rest), f
		}
	}
	bytes, err := strconv.ParseInt(s, 10, 32)
	if err != nil || bytes <= 0 {
		d.problem(line(n), path, "a size such as 1MiB is expected")
		return
	}
	v.SetInt(bytes * factor)
}

func fieldByTag(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag.Get("yaml"); tag == key && tag != "-" {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func tags(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("yaml"); tag != "-" {
			out = append(out, tag)
		}
	}
	slices.Sort(out)
	return out
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
