package providers

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// document returns the JSON document in a form, or otherwise the body.
func (x *extraction) document(req *Request) ([]byte, *Refusal) {
	if !x.form || !isForm(req) {
		return req.Body, nil
	}
	form, err := parseForm(req.Body)
	if err != nil {
		return nil, refuse(ReasonMalformed, "body: "+err.Error())
	}
	value, ok, err := one(form[x.formJSON])
	if err != nil || !ok {
		return nil, refuse(ReasonMalformed, "form "+x.formJSON+" is missing")
	}
	return []byte(value), nil
}

// sortedForm concatenates names and values, sorted by name.
func sortedForm(form url.Values) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(form)) {
		for _, value := range form[name] {
			b.WriteString(name)
			b.WriteString(value)
		}
	}
	return b.String()
}
