package main_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

const secret = "whsec_c2hhcmVkIHdpdGggdGhlIHRhcmdldA=="

// The examples in the README run, and agree with what a forward really sends.
func TestReceiverInGo(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "receiver")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	conforms(t, binary)
}

// Where there is no node, nothing is known of the example in JavaScript, and the test
// says so. REQUIRE_NODE=1 makes that a failure: ./scripts/test sets it wherever it
// finds node, so that what can run there does.
func TestReceiverInJavaScript(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("REQUIRE_NODE") != "" {
			t.Fatal("REQUIRE_NODE is set and there is no node on PATH: install Node 18 or newer, or unset it")
		}
		t.Skip("NOT TESTED: the receiver in JavaScript. There is no node on PATH; install Node 18 or newer")
	}
	conforms(t, node, "receiver.mjs")
}

// conforms starts a receiver and sends to it what Oncegate sends.
func conforms(t *testing.T, command ...string) {
	t.Helper()
	url, work := start(t, command...)
	send := func(change func(*forward.Config, *effect.Call)) effect.Result {
		cfg := forward.Config{URL: url, Sign: []string{secret}, Idempotent: true, KeepReply: true}
		call := effecttest.Call(1)
		call.Event.Body = []byte("{ \"a\" : 1.0, \"ü\": \"\xff\x00\" }\r\n") // bytes that no parser gives back
		change(&cfg, call)
		forward, err := forward.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer forward.Close()
		return forward.Send(t.Context(), call)
	}
	for _, c := range []struct {
		name       string
		change     func(*forward.Config, *effect.Call)
		want       effect.Outcome
		code       string
		recognised bool
		work       string
	}{
		{"the first attempt", func(*forward.Config, *effect.Call) {}, effect.Done, "200", false, "did evt_1 order.paid under key-1"},
		{"the next attempt", func(_ *forward.Config, c *effect.Call) { c.Attempt = 2 }, effect.Done, "200", true, ""},
		{"another route", func(_ *forward.Config, c *effect.Call) { c.Key = "key-2" }, effect.Done, "200", false, "did evt_1 order.paid under key-2"},
		{"a new key", func(_ *forward.Config, c *effect.Call) { c.Key = "key-1~v2" }, effect.Done, "200", false, "did evt_1 order.paid under key-1~v2"},
		{"no body", func(_ *forward.Config, c *effect.Call) { c.Key, c.Event.Body = "key-3", nil }, effect.Done, "200", false, "did evt_1 order.paid under key-3"},
		{"the new secret first", func(f *forward.Config, c *effect.Call) {
			c.Key, f.Sign = "key-4", []string{"the next one", secret}
		}, effect.Done, "200", false, "did evt_1 order.paid under key-4"},
		{"another secret", func(f *forward.Config, c *effect.Call) {
			c.Key, f.Sign = "key-5", []string{"somebody else's"}
		}, effect.Dead, "401", false, ""},
		{"no signature", func(f *forward.Config, c *effect.Call) { c.Key, f.Sign = "key-5", nil }, effect.Dead, "401", false, ""},
		{"signed long ago", func(f *forward.Config, c *effect.Call) {
			c.Key, f.Now = "key-5", func() time.Time { return time.Now().Add(-10 * time.Minute) }
		}, effect.Dead, "401", false, ""},
		{"signed in the future", func(f *forward.Config, c *effect.Call) {
			c.Key, f.Now = "key-5", func() time.Time { return time.Now().Add(10 * time.Minute) }
		}, effect.Dead, "401", false, ""},
		{"the signature of another body", func(f *forward.Config, c *effect.Call) {
			now := strconv.FormatInt(time.Now().Unix(), 10)
			mac := hmac.New(sha256.New, []byte("shared with the target"))
			mac.Write([]byte("key-5." + now + ".another body"))
			c.Key, f.Sign = "key-5", nil
			f.Headers = map[string]string{
				"Webhook-Id": "key-5", "Webhook-Timestamp": now,
				"Webhook-Signature": "v1,AAAA v2,x v1, v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)),
			}
		}, effect.Dead, "401", false, ""},
	} {
		got := send(c.change)
		if got.Outcome != c.want || got.Code != c.code || got.Recognised != c.recognised {
			t.Errorf("%s: %+v, want %s %s, recognised %t", c.name, got, c.want, c.code, c.recognised)
		}
		if c.want == effect.Done && string(got.Stored) != "done\n" {
			t.Errorf("%s: it replied %q", c.name, got.Stored)
		}
		if c.work == "" {
			continue // work that it should not have done is the next line, and another
		}
		select {
		case line := <-work:
			if line != c.work {
				t.Errorf("%s: it %q, want %q", c.name, line, c.work)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: no work was done", c.name)
		}
	}
	if got := send(func(_ *forward.Config, c *effect.Call) { c.Key = "last" }); got.Outcome != effect.Done {
		t.Errorf("the last one: %+v", got)
	}
	if line := <-work; line != "did evt_1 order.paid under last" {
		t.Errorf("it also %q", line)
	}
}

// start runs a receiver, and gives its address and a channel of what it says it did.
func start(t *testing.T, command ...string) (url string, work <-chan string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "ADDRESS=127.0.0.1:0", "WEBHOOK_SECRET="+secret)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("it says nothing: %v", err)
	}
	did := make(chan string, 64)
	go func() {
		defer close(did)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				_, _ = io.Copy(io.Discard, out)
				return
			}
			did <- strings.TrimSuffix(line, "\n")
		}
	}()
	return strings.TrimPrefix(strings.TrimSpace(first), "listening on ") + "/hooks", did
}
