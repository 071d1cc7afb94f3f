package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	netmail "net/mail"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/trials/servertest"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
)

// mailFile is the configuration of a post office: the address of the mail server and the keyring are filled in.
const mailFile = `
database: { url: %%[1]q, schema: %%[2]s }
%[2]s
targets:
  letters: { kind: mail, smtp: "smtp://%[1]s", from: "Shop <shop@example.com>", starttls: off, allow: [127.0.0.0/8] }
  ledger: { kind: forward, url: "%%[3]s/ledger", idempotent: true, allow: [127.0.0.0/8] }
sources:
  shop:
    provider: stripe
    tenant: acme
    secrets: ["file:%%[4]s/shop-secret"]
    routes:
      - { name: news, types: ["invoice.*"], target: letters, mail: { to: body.to, subject: "Grüße {{.To}}", text: "hello" } }
      - { name: ledger, types: ["refund.*"], target: ledger }
`

// postOffice is a server that sends mail.
type postOffice struct {
	*servertest.Server
	mails  *effecttest.MailServer
	tokens map[string]string
}

func newPostOffice(t *testing.T, keyring string) *postOffice {
	t.Helper()
	mails := effecttest.NewMailServer(t, nil, nil, false)
	p := &postOffice{mails: mails, Server: servertest.Start(t, servertest.Config{
		File: fmt.Sprintf(mailFile, mails.Address, keyring), Secrets: map[string]string{"shop-secret": shopSecret, "keyring": "2 ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8= active"},
	})}
	p.tokens = map[string]string{
		"payload": p.Token(t, "payload", "acme", "read-payload"), "metadata": p.Token(t, "metadata", "acme", "read-metadata"),
		"stranger": p.Token(t, "stranger", "blue", "admin"), "admin": p.Token(t, "admin", "", "admin"),
	}
	return p
}

// deliver sends an event for which mail is sent.
func (p *postOffice) deliver(t *testing.T, id, to string) {
	t.Helper()
	body := fmt.Sprintf(`{"id":%q,"object":"event","created":%d,"type":"invoice.paid","to":%s}`, id, time.Now().Unix(), to)
	if status, text := p.Deliver(t, "shop", shopSecret, body); status != http.StatusOK {
		t.Fatalf("%s: %d %s", id, status, text)
	}
}

// ask asks the API and decodes its answer.
func (p *postOffice) ask(t *testing.T, method, token, path, body string, into any) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.Private.URL+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.tokens[token])
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(read, into); err != nil || answer.StatusCode >= http.StatusMultipleChoices {
			t.Fatalf("%s %s as %s: %d %s", method, path, token, answer.StatusCode, read)
		}
	}
	return answer.StatusCode, string(read)
}

// received gives subject and Message-ID of the messages that the mail server has, by recipient, as another library reads them.
func (p *postOffice) received(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, got := range p.mails.Got() {
		read, err := netmail.ReadMessage(strings.NewReader(got.Data))
		if err != nil {
			t.Fatal(err)
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject"))
		if err != nil {
			t.Fatal(err)
		}
		to, err := read.Header.AddressList("To")
		if err != nil {
			t.Fatal(err)
		}
		out[to[0].Address] = append(out[to[0].Address], subject, read.Header.Get("Message-Id"))
	}
	return out
}

type shownMessage struct {
	Recipient     string
	Subject       string
	MessageID     string `json:"message_id"`
	Problem       string
	PayloadHidden bool `json:"payload_hidden"`
}

type shownItem struct {
	ID, State string
	Item      int
	Key       string `json:"idempotency_key"`
	MessageID string `json:"message_id"` // without its domain
	Message   *shownMessage
}

func (p *postOffice) items(t *testing.T, token, list string) []shownItem {
	t.Helper()
	var page struct{ Data []shownItem }
	p.ask(t, http.MethodGet, token, "/effects/"+list+"/items", "", &page)
	return page.Data
}

// found gives the ids of the effects that a key or a Message-ID finds.
func (p *postOffice) found(t *testing.T, token, key string) (ids []string) {
	t.Helper()
	var page struct{ Data []shownItem }
	p.ask(t, http.MethodGet, token, "/effects?key="+url.QueryEscape(key), "", &page)
	for _, e := range page.Data {
		ids = append(ids, e.ID)
	}
	return ids
}

// What a mail server has received of a list is what each item shows to whoever may read payloads, and leads back to it; nobody else
// sees or finds anything of it, and after an erasure nobody does.
func TestItemsShowAndFindTheirMessages(t *testing.T) {
	t.Parallel()
	for name, keyring := range map[string]string{"plain": "", "sealed": `seal: { keyring: "file:%%[4]s/keyring" }`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPostOffice(t, strings.ReplaceAll(keyring, "%%", "%"))
			p.deliver(t, "evt_list", `["ann@example.com","no address","Bob <bob@example.org>"]`)
			p.Until(t, 2, `SELECT count(*) FROM effect WHERE state = 'done' AND item > 0`)
			var list string
			if err := p.Pool.QueryRow(t.Context(), `SELECT id::text FROM effect WHERE item = 0`).Scan(&list); err != nil {
				t.Fatal(err)
			}
			got := p.received(t)
			items := p.items(t, "payload", list)
			if len(items) != 3 || len(got) != 2 {
				t.Fatalf("%d items, %d received", len(items), len(got))
			}
			for i, to := range []string{"ann@example.com", "no address", "bob@example.org"} {
				want := shownMessage{Recipient: to}
				if sent := got[to]; len(sent) == 2 {
					want.Subject, want.MessageID = "Grüße "+to, sent[1]
					if sent[0] != want.Subject {
						t.Errorf("the subject was sent as %q", sent[0])
					}
				}
				if items[i].Message == nil || *items[i].Message != want {
					t.Errorf("item %d shows %+v, want %+v", i+1, items[i].Message, want)
				}
				var alone shownItem
				_, text := p.ask(t, http.MethodGet, "payload", "/effects/"+items[i].ID, "", &alone)
				if alone.Message == nil || *alone.Message != want {
					t.Errorf("item %d alone shows %s", i+1, text)
				}
				for _, path := range []string{"/effects/" + items[i].ID, "/effects/" + list + "/items"} {
					_, text := p.ask(t, http.MethodGet, "metadata", path, "", nil)
					if !strings.Contains(text, `"message":{"payload_hidden":true}`) || strings.Contains(text, "Gr") || strings.Contains(text, "@example") || strings.Contains(text, "no address") {
						t.Errorf("%s without read-payload: %s", path, text)
					}
				}
				local, _, _ := strings.Cut(strings.TrimPrefix(want.MessageID, "<"), "@")
				if items[i].MessageID != local || alone.MessageID != local {
					t.Errorf("item %d is listed with the Message-ID %q and shown with %q, want %q", i+1, items[i].MessageID, alone.MessageID, local)
				}
				if want.MessageID == "" {
					continue
				}
				if _, text := p.ask(t, http.MethodGet, "metadata", "/effects", "", nil); strings.Contains(text, local) {
					t.Errorf("the list without read-payload has the Message-ID: %s", text)
				}
				for _, key := range []string{want.MessageID, strings.Trim(want.MessageID, "<>"), alone.Key} {
					p.finds(t, key, items[i].ID)
				}
			}
			p.ask(t, http.MethodPost, "admin", "/events/shop%2Fevt_list/erase", `{"reason":"they asked"}`, &struct{}{})
			for _, item := range p.items(t, "payload", list) {
				if item.Message != nil || item.MessageID != "" {
					t.Errorf("after the erasure item %d shows %+v", item.Item, item.Message)
				}
			}
			for _, sent := range got {
				p.finds(t, sent[1], "")
			}
		})
	}
}

// finds checks that a key leads to one effect, or to none if id is empty, for everybody who may see it, and to none for a stranger.
func (p *postOffice) finds(t *testing.T, key, id string) {
	t.Helper()
	for _, token := range []string{"payload", "metadata", "admin"} {
		if token == "metadata" && !strings.HasPrefix(key, "og1_") { // a Message-ID is content
			for _, path := range []string{"/references/effect/" + url.PathEscape(key), "/effects?key=" + url.QueryEscape(key)} {
				if status, text := p.ask(t, http.MethodGet, token, path, "", nil); status != http.StatusForbidden {
					t.Errorf("%s finds by %s: %d %s", token, key, status, text)
				}
			}
			continue
		}
		if got := p.found(t, token, key); strings.Join(got, " ") != id {
			t.Errorf("%s finds %q by %s, want %q", token, got, key, id)
		}
		status, text := p.ask(t, http.MethodGet, token, "/references/effect/"+url.PathEscape(key), "", nil)
		if id == "" && (status != http.StatusNotFound || !strings.Contains(text, "pruned or its event erased")) || id != "" && !strings.Contains(text, id) {
			t.Errorf("%s is led by %s to %d %s, want %q", token, key, status, text, id)
		}
	}
	status, text := p.ask(t, http.MethodGet, "stranger", "/references/effect/"+url.PathEscape(key), "", nil)
	if got := p.found(t, "stranger", key); len(got) > 0 || status != http.StatusNotFound || !strings.Contains(text, "pruned or its event erased") {
		t.Errorf("a stranger finds %q by %s: %d %s", got, key, status, text)
	}
}

// An effect that is sent again under a new key is found by both; what cannot be a key is refused.
func TestAnEffectIsFoundByEachOfItsKeys(t *testing.T) {
	t.Parallel()
	p := newPostOffice(t, "")
	p.deliver(t, "evt_one", `"ann@example.com"`)
	p.Until(t, 1, `SELECT count(*) FROM effect WHERE state = 'done'`)
	var before, after struct {
		Data []shownItem
	}
	p.ask(t, http.MethodGet, "admin", "/effects", "", &before)
	id := before.Data[0].ID
	var plan struct{ ID, Digest string }
	p.ask(t, http.MethodPost, "admin", "/replays", `{"ids":["`+id+`"],"options":{"include_done":true,"new_key":true},"reason":"ann lost it"}`, &plan)
	p.ask(t, http.MethodPost, "admin", "/replays/"+plan.ID+"/run", `{"digest":"`+plan.Digest+`","reason":"ann lost it"}`, &struct{}{})
	p.Until(t, 2, `SELECT count(*) FROM effect_attempt WHERE outcome = 'done'`)
	sent := p.received(t)["ann@example.com"]
	if len(sent) != 4 || sent[1] == sent[3] {
		t.Fatalf("received %q, want two messages with ids of their own", sent)
	}
	p.finds(t, sent[1], id)
	p.finds(t, sent[3], id)
	p.ask(t, http.MethodGet, "admin", "/effects?state=done&key="+url.QueryEscape(sent[1]), "", &after)
	if len(after.Data) != 1 {
		t.Errorf("with its state %d are found", len(after.Data))
	}
	for _, wrong := range []string{"<canary@example.com>", "og1_short", "key", "<" + strings.Trim(sent[1], "<>"), strings.ToUpper(sent[1])} {
		status, text := p.ask(t, http.MethodGet, "admin", "/effects?key="+url.QueryEscape(wrong), "", nil)
		if status != http.StatusBadRequest || !strings.Contains(text, "32 hexadecimal digits") {
			t.Errorf("%s: %d %s", wrong, status, text)
		}
	}
	if status, text := p.ask(t, http.MethodGet, "admin", "/references/effect/"+url.PathEscape("<canary@example.com>"), "", nil); status != http.StatusNotFound || !strings.Contains(text, "32 hexadecimal digits") {
		t.Errorf("%d %s", status, text)
	}
	if got := p.found(t, "admin", "<"+strings.Repeat("0", 32)+"@example.com>"); !slices.Equal(got, nil) {
		t.Errorf("an id that was never sent finds %q", got)
	}
}
