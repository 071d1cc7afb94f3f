package providers

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/jsonspan"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// specReader lays a YAML document over a [Spec] and then checks the whole. What does not
// fit is in the document's report.
type specReader struct {
	name string
	root *yamltree.Node

	// nodes are the parts of the document by their paths in it: a check wants the line of
	// what it complains about. unreadable are those in which something did not fit.
	nodes      map[string]*yamltree.Node
	unreadable map[*yamltree.Node]bool

	prefix      string // of the paths, while a mode is checked as the verification it is
	formJSON    string // the form field that is the body's document
	unknownBase bool   // it extends a provider that is not known
	extended    *Provider
}

// at reports a problem of a part of the spec, at its line or that of the nearest part
// around it. It stays silent if that part did not fit: what is wrong with it has been said.
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

// read lays the node over the spec.
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

// readInto reads a single value into one of the kind that parse gives.
func readInto[T any](n *yamltree.Node, v reflect.Value, parse func(string) (T, error)) {
	var value T
	if yamltree.Read(n, &value, parse) {
		v.Set(reflect.ValueOf(value).Convert(v.Type()))
	}
}

// readDuration reads a duration, or none for [Off].
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
		if item != n { // no element that stands alone
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

// DidYouMean is the question whether a provider with a name like the given one was
// meant, with a space after it; empty if no name is near. There are too many providers to list them all.
func DidYouMean(all map[string]*Provider, name string) string {
	return yamltree.DidYouMean(slices.Collect(maps.Keys(all)), name)
}

func durationText(d Duration) any {
	switch d {
	case 0:
		return nil
	case Off:
		return "none"
	}
	return yamltree.FormatDuration(time.Duration(d))
}
