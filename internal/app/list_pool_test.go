package app_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/internal/session"
)

// A process whose lists would be read from another database does not start. One whose lists cannot be read starts, says so
// and takes deliveries.
func TestListsHaveADatabaseAddressOfTheirOwn(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		listURL func(url string) string
		err     error
		logged  string
	}{
		"the same":         {func(url string) string { return url }, nil, ""},
		"another database": {func(url string) string { return inboxtest.OtherDatabase(t, url) }, session.ErrOtherDatabase, ""},
		"nobody there":     {func(string) string { return "postgres://lists:CANARY@127.0.0.1:1/none" }, nil, "the console and the API cannot show their lists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			cfg := settings(t, url, schema, "http://127.0.0.1:9/")
			cfg.Database.ListURL = of.listURL(url)
			var log logtest.Buffer
			a, err := app.New(t.Context(), app.Config{Settings: cfg, Logger: slog.New(slog.NewTextHandler(&log, nil)), Receive: true, Work: true, Version: "test"})
			if !errors.Is(err, of.err) {
				t.Fatalf("the start says %v, want %v", err, of.err)
			}
			if err == nil {
				if got := a.ListPool().Config().ConnString(); got != cfg.Database.ListURL {
					t.Error("lists are read by another address")
				}
				if err := a.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if text := log.String(); !strings.Contains(text, of.logged) || of.logged == "" && strings.Contains(text, "lists") || strings.Contains(text, "CANARY") {
				t.Errorf("logged:\n%s", text)
			}
		})
	}
}
