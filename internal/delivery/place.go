package delivery

import (
	"fmt"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

// place sets a value in the field from which the provider reads it. It prefers a header that the
// draft already has.
func (d *Draft) place(fields []providers.Field, value, what string) error {
	for _, present := range []bool{true, false} {
		for _, field := range fields {
			if present && !d.has(field) {
				continue
			}
			if done, err := d.put(field, value, what); done || err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("the provider has no place for a chosen %s", what)
}

// has reports whether the draft has a header from which the field is read.
func (d *Draft) has(field providers.Field) bool {
	for _, part := range append([]providers.Field{field}, field.Join...) {
		if part.Header != "" && d.Header.Get(part.Header) != "" {
			return true
		}
	}
	return false
}

// put sets one field. For a joined field, it splits the value at the separator and sets the parts.
func (d *Draft) put(field providers.Field, value, what string) (bool, error) {
	switch {
	case len(field.Join) > 0:
		values := []string{value}
		if field.With != "" {
			values = strings.SplitN(value, field.With, len(field.Join))
		}
		for i, part := range field.Join {
			if i >= len(values) {
				break
			}
			if done, err := d.put(part, values[i], what); err != nil || !done && i == 0 {
				return false, err
			}
		}
		return true, nil
	case field.Header != "":
		d.Header.Set(field.Header, value)
		return true, nil
	case field.JSON != "" && field.JSON != "$":
		body, err := set(d.Body, strings.Split(field.JSON, "."), value)
		if err != nil {
			return false, fmt.Errorf("putting the %s into the payload at %s: %w", what, field.JSON, err)
		}
		d.Body = body
		return true, nil
	}
	return false, nil
}
