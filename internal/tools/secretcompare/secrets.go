package main

import (
	"go/types"
	"strings"
)

const module = "github.com/oncegate/oncegate/"

// fields lists the fields that contain secrets: the package path below the module, the type and the
// field.
var fields = map[string]bool{
	"providers.Secret.Value":             true,
	"providers/scheme.Secret.Value":      true,
	"providers/scheme.messageKey.secret": true,
	"providers.mac.key":                  true,
	"providers.mac.sum":                  true,
	"inbox/seal.Key.secret":              true,
	"jobs/effect/forward.Config.Sign":    true,
	"jobs/effect/forward.Sender.keys":    true,
	"jobs/effect/mail.Config.Password":   true,
	"internal/access.OIDC.ClientSecret":  true,
	"internal/access.flow.State":         true,
	"internal/access.flow.Nonce":         true,
	"internal/access.flow.Verifier":      true,
}

// whole lists types that are secret as a whole, because == compares their values.
var whole = map[string]bool{"inbox/seal.Key": true}

// macs lists functions whose result an attacker must not be able to guess byte by byte.
var macs = map[string]bool{
	"crypto/hmac.New":                       true,
	module + "providers/scheme.tokenMAC":    true,
	"(*" + module + "providers.mac).finish": true,
}

// named lists parameter names that denote a secret if the parameter is a string or bytes.
var named = map[string]bool{"secret": true, "password": true}

// pathOf returns a type below the module in the form of the lists, or "" for any other type.
func pathOf(t types.Type) string {
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	name, ok := t.(*types.Named)
	if !ok || name.Obj().Pkg() == nil {
		return ""
	}
	path, ours := strings.CutPrefix(name.Obj().Pkg().Path(), module)
	if !ours {
		return ""
	}
	return path + "." + name.Obj().Name()
}

// textual reports whether a type is a string or a byte slice.
func textual(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Basic:
		return t.Info()&types.IsString != 0
	case *types.Slice:
		element, ok := t.Elem().Underlying().(*types.Basic)
		return ok && element.Kind() == types.Byte
	}
	return false
}
