package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// pageEvery is how often a person opens a page.
const pageEvery = time.Second

// reader acts as a person who reads the console: it opens one page after another, while it keeps the live list of
// events open.
type reader struct {
	base, token string
	client      *http.Client
	pages       atomic.Int64
	messages    atomic.Int64 // bytes of the live list
}

func newReader(ctx context.Context, s *testbed, n *rig.Node, config string) (*reader, error) {
	cfg := s.node(config, "receive")
	result, err := lab.RunCommand(ctx, s.Environ(&cfg), time.Minute, s.Binary, "tokens", "create", "reader", "--scope", "read-metadata", "--actor", "bench")
	if err != nil || result.ExitCode != 0 {
		return nil, fmt.Errorf("making a token: %w: %s", err, result.Stderr)
	}
	r := &reader{base: "http://" + n.Admin, token: strings.TrimSpace(result.Stdout), client: &http.Client{Timeout: 10 * time.Minute}}
	for _, path := range readPages {
		if err := r.open(ctx, path); err != nil { // a page that cannot be read would cost nothing
			return nil, err
		}
	}
	return r, nil
}

// readPages are the pages that a reader opens in turn: the open problems, the overview and the events.
var readPages = []string{"/", "/overview", "/events"}

// read reads until ctx ends.
func (r *reader) read(ctx context.Context) error {
	follow := make(chan error, 1)
	go func() { follow <- r.get(ctx, "/live?list=events", &r.messages) }()
	ticker := time.NewTicker(pageEvery)
	defer ticker.Stop()
	for i := 0; ; i++ {
		if err := r.open(ctx, readPages[i%len(readPages)]); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ticker.C:
		case err := <-follow:
			if ctx.Err() == nil {
				return fmt.Errorf("the live list ended: %w", err)
			}
			return nil
		case <-ctx.Done():
			<-follow //nolint:errcheck // the context has ended, so this ends too
			return nil
		}
	}
}

func (r *reader) open(ctx context.Context, path string) error {
	var size atomic.Int64
	err := r.get(ctx, path, &size)
	if err == nil {
		r.pages.Add(1)
	}
	return err
}

func (r *reader) get(ctx context.Context, path string, size *atomic.Int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	answer, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s was answered %s", path, answer.Status)
	}
	buffer := make([]byte, 4<<10)
	for {
		n, err := answer.Body.Read(buffer)
		size.Add(int64(n))
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
