package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/trials/prometheustest"
)

// A week passes with everything that wakes an operator. Exactly the right alerts fire, exactly the right messages are sent, the start page
// names each problem within two minutes and says what to do, and each panel of the dashboard has data.
func TestWeek(t *testing.T) {
	t.Parallel()
	prometheustest.Promtool(t)
	w := newWeek(t)
	w.keep(1)
	w.episode("a quiet day", nil, nil, func() { w.hours(72) })
	w.episode("a burst", nil, nil, w.burst)
	w.episode("a target that is down", []string{"TargetIsDown", "Backlog"}, []string{
		"opened failing ledger", "opened failing ledger" /* when ten times as much waits */, "resolved failing ledger",
	}, w.targetDown)
	w.episode("a target that hangs", []string{"UnknownOutcomes"}, []string{"opened indeterminate shop/charge", "resolved indeterminate shop/charge"}, w.targetHangs)
	w.episode("a silent sender", []string{"SourceIsSilent"}, []string{"opened silent code", "resolved silent code"}, w.silentSender)
	w.episode("forgeries", []string{"Refusals"}, []string{"opened refusal shop", "resolved refusal shop"}, w.forgeries)
	w.episode("a failed rotation", []string{"Refusals", "SenderGivesUp"}, []string{"opened refusal code", "resolved refusal code"}, w.rotation)
	w.episode("an invalid reload", []string{"ReloadFailed"}, []string{"opened not_reloaded", "resolved not_reloaded"}, w.invalidReload)
	w.episode("two upgrades", nil, nil, w.upgrades)
	w.episode("forgotten pauses", []string{"PauseIsForgotten", "Backlog", "SenderGivesUp"}, []string{
		"opened paused source code", "opened paused target ledger", "resolved paused source code", "resolved paused target ledger",
	}, w.forgottenPauses)
	w.episode("another quiet day", nil, nil, func() { w.hours(56) })
	if days := w.recorded.Minutes() / 60 / 24; days < 7 {
		t.Errorf("%d days are recorded, want a week", days)
	}
	w.recorded.Ask(t, "../../docs/guides/alerts.yml", w.asked...)
	w.recorded.AskPanels(t, prometheustest.Dashboard(t, "../../docs/guides/grafana.json", "15m"))
}

func (w *week) burst() {
	for range 300 {
		w.send("shop", `{"type":"order"}`, weekSecret)
	}
	w.minutes(10)
}

func (w *week) targetDown() {
	w.down.Store(true)
	w.traffic()
	inboxtest.Until(w.t, "an attempt that fails", func() bool { return w.any().count(`SELECT count(*) FROM effect WHERE state = 'retry'`) > 0 })
	w.named(attention.Failing, "ledger", "wait since", "last answer 503")
	w.minutes(40)
	w.down.Store(false)
	inboxtest.Until(w.t, "the effects to be done", func() bool {
		w.pass(1)
		return w.any().count(`SELECT count(*) FROM effect WHERE state IN ('pending', 'retry', 'claimed')`) == 0
	})
}

func (w *week) targetHangs() {
	w.hangs.Store(true)
	for range 2 {
		w.send("shop", `{"type":"charge"}`, weekSecret)
	}
	inboxtest.Until(w.t, "unknown outcomes", func() bool { return w.any().count(`SELECT count(*) FROM effect WHERE state = 'indeterminate'`) == 2 })
	w.named(attention.Indeterminate, "charge")
	w.hangs.Store(false)
	w.minutes(5)
	var found struct{ Data []struct{ ID string } }
	w.ask(http.MethodGet, "/api/v1/effects?state=indeterminate", "", &found)
	for _, e := range found.Data {
		w.ask(http.MethodPost, "/api/v1/effects/"+e.ID+"/resolve", `{"as":"done","reason":"the bank has it"}`, nil)
	}
}

func (w *week) silentSender() {
	w.quiet["code"] = true
	w.hours(7)
	for range 60 { // it is silent after 20 of its intervals
		if len(w.waits()) > 0 {
			break
		}
		w.minutes(1)
	}
	w.named(attention.Silent, "code")
	w.minutes(10)
	w.quiet["code"] = false
	w.traffic()
	w.settled()
}

func (w *week) forgeries() {
	for range 30 {
		w.send("shop", `{"type":"order","amount":1000000}`, anotherSecret)
	}
	w.named(attention.Refusals, "shop")
	w.minutes(5)
	w.ask(http.MethodPost, "/api/v1/refusals/acknowledge", `{"causes":[{"source":"shop","cause":"mismatch","peer":"203.0.113.66"}],"reason":"somebody forges"}`, nil)
}

// The sender signs with a secret that nobody has configured.
func (w *week) rotation() {
	w.signs = anotherSecret
	for range 25 {
		w.traffic()
	}
	w.named(attention.Refusals, "code")
	w.minutes(10)
	w.reload(strings.Replace(w.text, "[env:SECRET], routes: [{ name: build", "[env:SECRET, env:OTHER], routes: [{ name: build", 1))
	w.traffic()
	// GitLab's header is the secret itself, so no refusal keeps it, and none can be verified again.
	w.ask(http.MethodPost, "/api/v1/refusals/acknowledge", `{"causes":[{"source":"code","cause":"mismatch","peer":"192.0.2.7"}],"reason":"GitLab delivers them again"}`, nil)
}

// reload has every process apply a configuration.
func (w *week) reload(text string) {
	w.t.Helper()
	w.text = text
	for _, p := range w.processes {
		p.write(text)
		if err := p.Reload(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *week) invalidReload() {
	p := w.any()
	p.write(strings.Replace(w.text, "target: bank", "target: bnak", 1))
	if err := p.Reload(w.t.Context()); err == nil {
		w.t.Fatal("an invalid configuration was applied")
	}
	p.write(w.text) // the senders read it, too
	w.named(attention.NotReloaded)
	var page string
	w.ask(http.MethodGet, "/nodes", "", &page)
	if !strings.Contains(page, "bnak") {
		w.t.Errorf("the page of the nodes does not say why:\n%s", page)
	}
	w.minutes(5)
	w.reload(w.text)
}

// upgrades replaces the process twice, by one that starts before the other stops.
func (w *week) upgrades() {
	for i, version := range []string{"1.1.0", "1.2.0"} {
		w.start(fmt.Sprint("oncegate-", i+2), version)
		w.minutes(10)
		w.stop(fmt.Sprint("oncegate-", i+1))
		w.minutes(30)
	}
}

// Somebody pauses a target and a source, and goes home for the weekend.
func (w *week) forgottenPauses() {
	for _, what := range []string{"targets/ledger", "sources/code"} {
		w.ask(http.MethodPost, "/api/v1/"+what+"/pause", `{"reason":"a repair"}`, nil)
	}
	w.named(attention.Paused, "target ledger", "source code", "a repair")
	w.hours(26)
	for _, what := range []string{"targets/ledger", "sources/code"} {
		w.ask(http.MethodPost, "/api/v1/"+what+"/resume", `{"reason":"the repair is done"}`, nil)
	}
	w.minutes(2)
	w.settled()
}
