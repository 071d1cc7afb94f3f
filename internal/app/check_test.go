package app_test

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
)

// Whatever a server refuses at its start, but for what only the database can tell,
// `config check` refuses in the same words, and it refuses nothing else. The settings are
// changed after they were read, so that what the reader refuses already does not hide it.
func TestCheckRefusesWhatTheStartRefuses(t *testing.T) {
	t.Parallel()
	mutations := map[string]struct {
		change  func(cfg *config.Config)
		refused bool
	}{
		"nothing":                       {func(*config.Config) {}, false},
		"memory for bodies":             {func(c *config.Config) { c.Bodies.BodyBytes = 1 << 20 }, true},
		"reserve for small bodies":      {func(c *config.Config) { c.Bodies.SmallBodyReserve = 1 << 40 }, true},
		"negative limits for bodies":    {func(c *config.Config) { c.Bodies.PeerBodyBytes = -1 }, true},
		"largest body":                  {func(c *config.Config) { c.Sources[0].MaxBody = 1 << 40 }, true},
		"smaller body":                  {func(c *config.Config) { c.Sources[0].MaxBody = 1 << 10 }, false},
		"new keys of no operation":      {func(c *config.Config) { c.Sources[0].Operation.NewKeys = 5 }, true},
		"undeclared setting":            {func(c *config.Config) { c.Sources[0].Settings = map[string]config.Setting{"nothing": {}} }, true},
		"target's scheme":               {func(c *config.Config) { c.Targets[0].URL = "ftp://target.example" }, true},
		"target's user":                 {func(c *config.Config) { c.Targets[0].URL = "https://user@target.example" }, true},
		"target's method":               {func(c *config.Config) { c.Targets[0].Method = "DELETE" }, true},
		"target's header":               {func(c *config.Config) { c.Targets[0].Headers = map[string]string{"a b": "c"} }, true},
		"target's kind":                 {func(c *config.Config) { c.Targets[0].Kind, c.Targets[0].Call = config.KindSQL, "a; drop table b" }, true},
		"mail without a server":         {func(c *config.Config) { c.Targets[0].Kind = config.KindMail }, true},
		"probe without a placeholder":   {func(c *config.Config) { c.Targets[0].Probe = &config.Probe{URL: "https://a.example/"} }, true},
		"negative workers":              {func(c *config.Config) { c.Work.Workers = -1 }, true},
		"lease too short":               {func(c *config.Config) { c.Work.Lease = time.Nanosecond }, false},
		"negative pause":                {func(c *config.Config) { c.Work.SweepEvery = -time.Second }, false},
		"negative queue of the gate":    {func(c *config.Config) { c.Gate.QueueEvents = -1 }, true},
		"negative bytes of the gate":    {func(c *config.Config) { c.Gate.QueueBytes = -1 }, true},
		"negative deadline":             {func(c *config.Config) { c.Gate.Deadline = -time.Second }, true},
		"too few gate connections":      {func(c *config.Config) { c.Database.GateConnections = 1 }, false},
		"too few queue connections":     {func(c *config.Config) { c.Database.QueueConnections = 1 }, false},
		"too few work connections":      {func(c *config.Config) { c.Database.WorkConnections = 1 }, false},
		"no connection string":          {func(c *config.Config) { c.Database.URL = "postgres://host:port/" }, true},
		"no connection string of lists": {func(c *config.Config) { c.Database.ListURL = "postgres://host:port/" }, true},
		"name of the schema":            {func(c *config.Config) { c.Database.Schema = "no; schema" }, true},
		"missing keyring":               {func(c *config.Config) { c.Seal.Keyring = "file:/nowhere/at/all" }, true},
		"trusted proxies":               {func(c *config.Config) { c.Listen.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }, false},
		"negative timeout of a route":   {func(c *config.Config) { c.Sources[0].Routes[0].Timeout = -time.Second }, true},
		"negative attempts of a route":  {func(c *config.Config) { c.Sources[0].Routes[0].Retry.Attempts = -1 }, true},
	}
	for name, m := range mutations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			cfg := settings(t, url, schema, "http://127.0.0.1:9/")
			m.change(cfg)
			build := app.Config{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true, Version: "test"}
			checked := app.Check(t.Context(), build)
			a, started := app.New(t.Context(), build)
			if started == nil {
				started = a.Start(t.Context())
				if err := a.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
			switch {
			case (checked == nil) != (started == nil):
				t.Fatalf("the check says %v, the start %v", checked, started)
			case checked != nil && checked.Error() != started.Error():
				t.Errorf("the check says\n%v\nthe start\n%v", checked, started)
			case m.refused != (started != nil):
				t.Errorf("the start says %v", started)
			}
		})
	}
}

// A check opens no connection: it works where the database cannot be reached.
func TestCheckAsksNoDatabase(t *testing.T) {
	t.Parallel()
	cfg := settings(t, "postgres://nobody@127.0.0.1:1/none", "oncegate", "http://127.0.0.1:9/")
	err := app.Check(t.Context(), app.Config{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true})
	if err != nil {
		t.Error(err)
	}
}
