// Package controltest answers operations without a database, for tests of their callers.
package controltest

import (
	"context"
	"encoding/json"
	"reflect"
	"sync"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/control"
)

// SomeID is used for every id in an answer.
const SomeID = "0199aaaa-0000-7000-8000-0000000000a1"

// Filler answers every operation with a response in which every text is Text, every time is At, every list has two
// rows, and every number is 7. It is safe for concurrent use.
type Filler struct {
	Text string
	At   time.Time

	mu    sync.Mutex
	asked map[string]int
}

// Call fills the response.
func (f *Filler) Call(_ context.Context, operation control.Definition, _, response any) error {
	f.Answer(operation.Describe().ID, response)
	return nil
}

// Answer counts that an operation was asked, and fills its response.
func (f *Filler) Answer(operation string, response any) {
	f.mu.Lock()
	if f.asked == nil {
		f.asked = map[string]int{}
	}
	f.asked[operation]++
	f.mu.Unlock()
	f.fill(reflect.ValueOf(response).Elem(), 0)
}

// Asked returns how often each operation was asked since the last call, by its id.
func (f *Filler) Asked() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

var (
	idType   = reflect.TypeFor[inbox.ID]()
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

func (f *Filler) fill(v reflect.Value, depth int) {
	switch v.Type() {
	case idType:
		id, _ := inbox.ParseID(SomeID)
		v.Set(reflect.ValueOf(id))
		return
	case timeType:
		v.Set(reflect.ValueOf(f.At))
		return
	case rawType:
		text, _ := json.Marshal(map[string]string{f.Text: f.Text})
		v.SetBytes(text)
		return
	}
	switch v.Kind() { //nolint:exhaustive // answers are made of these
	case reflect.String:
		v.SetString(f.Text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i), depth)
			}
		}
	case reflect.Slice:
		f.fillSlice(v, depth)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, depth+1)
		f.fill(value, depth+1)
		v.SetMapIndex(key, value)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(f.Text))
		}
	}
}

func (f *Filler) fillSlice(v reflect.Value, depth int) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte(f.Text))
		return
	}
	if depth > 6 {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 2, 2))
	for i := range 2 {
		f.fill(v.Index(i), depth+1)
	}
}
