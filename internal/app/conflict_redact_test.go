package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
)

// What the console masks in a payload is masked where two payloads are compared.
func TestChangesMaskWhatTheConsoleMasks(t *testing.T) {
	t.Parallel()
	settings := &config.Config{}
	settings.Console.Redact = []string{"email"}
	changes := app.PayloadChanges(settings, "shop", []byte(`{"email":"ada@example.com","n":1}`), []byte(`{"n":2}`))
	if text := fmt.Sprint(changes); len(changes) != 2 || strings.Contains(text, "ada@") {
		t.Errorf("the changes are %s", text)
	}
}
