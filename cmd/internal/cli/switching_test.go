package cli_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// oldShop is a shop with a webhook handler as people write it by hand, which keeps the ids of the events that it has processed, and with
// an endpoint that does the same work for Oncegate and recognises its keys. A sender delivers each event to both sides, and each
// delivery twice at once, until it is acknowledged.
type oldShop struct {
	mu      sync.Mutex
	open    bool            // the handler takes deliveries
	done    map[string]bool // the handler's table of event ids
	keys    map[string]bool // the table of keys of the endpoint for Oncegate
	worked  map[string]int  // how often the work of each event was done
	made    int             // events that the sender has made
	taken   int             // events that Oncegate has acknowledged
	sending bool
	failed  bool // the script has ended: nothing more is delivered

	server   *httptest.Server
	oncegate string
	secret   []byte
	senders  sync.WaitGroup
}

// shopKey is the key of a script's shop.
type shopKey struct{}

// switching start URL SECRET: sets NEW_URL to the endpoint for Oncegate and begins to deliver to its handler and to Oncegate at URL.
// switching more N: waits until Oncegate has acknowledged N more events, and the handler too while it is open.
// switching stop: stops the handler and waits for what it does. Its sender gets 503 and tries again.
// switching done FILE: writes the ids in the handler's table.
// switching open FILE: adds the ids in FILE to the handler's table and opens the handler.
// switching end: makes no more events, and delivers the others.
// switching exactly once: the work of every event so far was done once.
func switching(ts *testscript.TestScript, neg bool, args []string) {
	shop, _ := ts.Value(shopKey{}).(*oldShop)
	switch verb := strings.Join(args[:min(len(args), 1)], ""); {
	case neg:
		ts.Fatalf("switching is never negated")
	case verb == "start" && len(args) == 3:
		shop.start(ts, args[1], args[2])
	case verb == "more" && len(args) == 2:
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		goal := shop.acknowledged() + n
		poll(ts, "more events", func() bool { return shop.acknowledged() >= goal })
	case verb == "stop":
		shop.locked(func() { shop.open = false })
	case verb == "done" && len(args) == 2:
		var ids []string
		shop.locked(func() { ids = slices.Sorted(maps.Keys(shop.done)) })
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Join(ids, "\n")+"\n"), 0o600))
	case verb == "open" && len(args) == 2:
		ids := strings.Fields(ts.ReadFile(args[1]))
		shop.locked(func() {
			for _, id := range ids {
				shop.done[id] = true
			}
			shop.open = true
		})
	case verb == "end":
		shop.locked(func() { shop.sending = false })
		shop.senders.Wait()
	case verb == "exactly":
		made := 0
		shop.locked(func() { made = shop.made })
		poll(ts, "the work of all events", func() bool { never, _ := shop.wrong(made); return len(never) == 0 })
		if _, twice := shop.wrong(made); len(twice) > 0 {
			ts.Fatalf("of %d events, %d were done twice, such as %v", made, len(twice), twice[:min(5, len(twice))])
		}
		ts.Logf("the work of %d events was done once", made)
	default:
		ts.Fatalf("usage: switching start url secret | more n | stop | done file | open file | end | exactly once")
	}
}

func (s *oldShop) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// acknowledged returns how many events Oncegate has acknowledged.
func (s *oldShop) acknowledged() (n int) {
	s.locked(func() { n = s.taken })
	return n
}

// removed reports whether the sender has ended while the handler is closed: its endpoint is not tried any more.
func (s *oldShop) removed() (yes bool) {
	s.locked(func() { yes = s.failed || !s.sending && !s.open })
	return yes
}

// ended reports whether the script has ended, also before all events are delivered.
func (s *oldShop) ended() (yes bool) {
	s.locked(func() { yes = s.failed })
	return yes
}

// wrong names those of the first events whose work was not done once.
func (s *oldShop) wrong(made int) (never, twice []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range made {
		switch id := fmt.Sprint("evt_", i); {
		case s.worked[id] == 0:
			never = append(never, id)
		case s.worked[id] > 1:
			twice = append(twice, id)
		}
	}
	return never, twice
}

func (s *oldShop) start(ts *testscript.TestScript, oncegate, secret string) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	ts.Check(err)
	s.open, s.sending, s.oncegate, s.secret = true, true, oncegate, key
	s.done, s.keys, s.worked = map[string]bool{}, map[string]bool{}, map[string]int{}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	ts.Defer(s.server.Close)
	ts.Defer(func() { s.locked(func() { s.sending, s.failed = false, true }); s.senders.Wait() })
	ts.Setenv("NEW_URL", s.server.URL+"/new")
	s.senders.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for s.deliverNext() {
			<-tick.C
		}
	})
}

// serve is the handler, at /old, and the endpoint for Oncegate. Each does its work in one transaction with its own table.
func (s *oldShop) serve(w http.ResponseWriter, r *http.Request) {
	var event struct{ ID string }
	if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &event) != nil || event.ID == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	table, id := s.keys, r.Header.Get("Idempotency-Key")
	if r.URL.Path == "/old" {
		table, id = s.done, r.Header.Get("Webhook-Id")
		if !s.open {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
	}
	if !table[id] {
		table[id] = true
		s.worked[event.ID]++
	}
}

// deliverNext makes an event and delivers it to both sides, each twice at once. It reports whether the sender goes on.
func (s *oldShop) deliverNext() bool {
	id := ""
	s.locked(func() {
		if s.sending {
			id = fmt.Sprint("evt_", s.made)
			s.made++
		}
	})
	if id == "" {
		return false
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { s.deliver(s.oncegate, id, s.ended) })
	}
	// The sender delivers to the handler beside later events.
	for range 2 {
		s.senders.Go(func() { s.deliver(s.server.URL+"/old", id, s.removed) })
	}
	both.Wait()
	s.locked(func() { s.taken++ })
	return true
}

// deliver delivers an event until it is acknowledged or the sender gives up.
func (s *oldShop) deliver(url, id string, givesUp func() bool) {
	body := fmt.Appendf(nil, `{"type":"order.paid","id":%q}`, id)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for ; !givesUp(); <-tick.C {
		now := strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, s.secret)
		fmt.Fprintf(mac, "%s.%s.%s", id, now, body)
		request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return
		}
		request.Header = http.Header{
			"Content-Type": {"application/json"}, "Webhook-Id": {id}, "Webhook-Timestamp": {now},
			"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))},
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
	}
}
