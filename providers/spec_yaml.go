package providers

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/jsonspan"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// specReader decodes a YAML document over a [Spec] and then checks the whole. It adds problems to
// the document's report.
type specReader struct {
	name string
	root *yamltree.Node

	// nodes contains the parts of the document by path, because a check reports the line of a
	// problem. unreadable contains those that could not be decoded.
	nodes      map[string]*yamltree.Node
	unreadable map[*yamltree.Node]bool

	prefix      string // of the paths, while a mode's verify section is checked
	formJSON    string // the form field that contains the body's document
	unknownBase bool   // it extends an unknown provider
	extended    *Provider
}

// at reports a problem of a part of the spec, at the line of that part or of the nearest part that
// contains it. It reports nothing if that part could not be decoded, because a problem was already
// reported for it.
func (d *specReader) at(path, format string, args ...any) {
	path = d.prefix + path
	for key := path; key != ""; {
		if n := d.nodes[key]; n != nil {
			if !d.unreadable[n] {
				n.Below(strings.TrimPrefix(path[len(key):], ".")).Fail(format, args...)
			}
			return
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	d.root.Below(path).Fail(format, args...)
}

// read decodes the document over the spec.
func (d *specReader) read(spec *Spec) {
	d.value(d.root, reflect.ValueOf(spec).Elem(), "")
	d.unreadable = map[*yamltree.Node]bool{}
	for _, n := range d.nodes {
		d.unreadable[n] = !n.Sound()
	}
}

var (
	durationType = reflect.TypeFor[Duration]()
	sizeType     = reflect.TypeFor[Size]()
	partType     = reflect.TypeFor[Part]()
)

func (d *specReader) value(n *yamltree.Node, v reflect.Value, path string) {
	switch {
	case v.Type() == durationType:
		readInto(n, v, readDuration)
		return
	case v.Type() == sizeType:
		readInto(n, v, func(s string) (Size, error) {
			size, err := yamltree.PositiveSize(s)
			return Size(size), err
		})
		return
	case v.Type() == partType && n.IsScalar():
		v.Set(reflect.ValueOf(Part{Word: n.Value()}))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.String:
		readInto(n, v, func(s string) (string, error) { return s, nil })
	case reflect.Bool:
		readInto(n, v, yamltree.ParseBool)
	case reflect.Int:
		readInto(n, v, func(s string) (int, error) { return yamltree.ParseInteger(s, 1) })
	default:
		n.Fail("cannot be set")
	}
}

// readInto parses a scalar and stores it, converted to the type of v.
func readInto[T any](n *yamltree.Node, v reflect.Value, parse func(string) (T, error)) {
	var value T
	if yamltree.Read(n, &value, parse) {
		v.Set(reflect.ValueOf(value).Convert(v.Type()))
	}
}

// readDuration parses a duration, or none for [Off].
func readDuration(s string) (Duration, error) {
	if s == "none" {
		return Off, nil
	}
	span, err := yamltree.PositiveDuration(s)
	return Duration(span), err
}

func (d *specReader) structure(n *yamltree.Node, v reflect.Value, path string) {
	known := map[string]func(*yamltree.Node){}
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("yaml")
		if key == "-" {
			continue
		}
		known[key] = func(member *yamltree.Node) {
			where := jsonspan.JoinPath(path, key)
			d.nodes[where] = member
			d.value(member, v.Field(i), where)
		}
	}
	n.Fields(known)
}

func (d *specReader) list(n *yamltree.Node, v reflect.Value, path string) {
	items := n.Items()
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		where := path
		if item != n { // not a single element without a list
			where = fmt.Sprintf("%s[%d]", path, i)
			d.nodes[where] = item
		}
		d.value(item, out.Index(i), where)
	}
	v.Set(out)
}

func (d *specReader) mapping(n *yamltree.Node, v reflect.Value, path string) {
	out := reflect.MakeMap(v.Type())
	for _, member := range n.Members() {
		where := jsonspan.JoinPath(path, member.Name())
		d.nodes[where] = member
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(member, item, where)
		out.SetMapIndex(reflect.ValueOf(member.Name()), item)
	}
	v.Set(out)
}

// DidYouMean returns the question whether a provider with a similar name was meant, followed by a
// space. It is empty if no name is similar. There are too many providers to list them all.
func DidYouMean(all Catalog, name string) string { return yamltree.DidYouMean(all.Names(), name) }

func durationText(d Duration) any {
	switch d {
	case 0:
		return nil
	case Off:
		return "none"
	}
	return yamltree.FormatDuration(time.Duration(d))
}
