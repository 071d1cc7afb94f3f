package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// mustRun runs a command that has to succeed.
func (o *operator) mustRun(ctx context.Context, kind string, into any, args ...string) error {
	h := commandOptions{kind: kind, neverKilled: true, decides: len(args) > 1 && args[0] == "keys" && args[1] != "reseal" && args[1] != "list"}
	a, err := o.runCommand(ctx, h, into, args...)
	if err == nil && a.ExitCode != 0 {
		err = fmt.Errorf("%s failed: %s", a, a.Stderr)
	}
	return err
}

// runKilled runs a command and kills it, unless it ends first.
func (o *operator) runKilled(ctx context.Context, h commandOptions, args ...string) (*act, error) {
	h.alwaysKilled = true
	return o.runCommand(ctx, h, nil, args...)
}

// keyRow is a key as `keys list` shows it.
type keyRow struct {
	ID     int32
	Active bool
	Usage  []prune.KeyUsage
}

// rotateKeys rotates keys and reseals until ctx ends. Each rotation takes as long as the servers need to read the new
// key.
func (c *campaign) rotateKeys(ctx context.Context) error {
	for n := 0; ; n++ {
		o := &operator{campaign: c, name: "keeper", random: c.randomFor(n, 221), round: n}
		if err := o.rotateKey(ctx); err != nil {
			return err
		}
		if !rig.Pause(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

// rotateKey adds a key, reseals everything with it, and removes the oldest key that may go.
func (o *operator) rotateKey(ctx context.Context) error {
	a, err := o.runCommand(ctx, commandOptions{kind: "keys rotate", decides: true, expectedUsage: "finishes that rotation"}, nil, "keys", "rotate")
	if err != nil {
		return err
	}
	rows, err := o.readKeys(ctx)
	if err != nil {
		return err
	}
	newest, active := newestKey(rows), activeKey(rows)
	if a.ExitCode != 0 && newest > active {
		if _, err := o.runCommand(ctx, commandOptions{kind: "keys activate", decides: true, neverKilled: true}, nil, "keys", "activate", strconv.Itoa(int(newest))); err != nil {
			return err
		}
	}
	if _, err := o.runCommand(ctx, commandOptions{kind: "keys reseal", neverKilled: true}, nil, "keys", "reseal"); err != nil {
		return err
	}
	if rows[0].ID == active {
		return nil
	}
	_, err = o.runCommand(ctx, commandOptions{kind: "keys remove", decides: true, neverKilled: true}, nil, "keys", "remove", strconv.Itoa(int(rows[0].ID)))
	return err
}

// readKeys returns the keys of the keyring, with how much is sealed with each.
func (o *operator) readKeys(ctx context.Context) ([]keyRow, error) {
	var page read.Page[keyRow]
	if err := o.mustRun(ctx, "keys list", &page, "keys", "list", "--usage"); err != nil {
		return nil, err
	}
	if len(page.Data) == 0 {
		return nil, errors.New("there is no key")
	}
	return page.Data, nil
}

// newestKey returns the key that was added last. The row of plain text values, after the keys, has no key id.
func newestKey(rows []keyRow) (newest int32) {
	for _, r := range rows {
		newest = max(newest, r.ID)
	}
	return newest
}

func activeKey(rows []keyRow) int32 {
	for _, r := range rows {
		if r.Active {
			return r.ID
		}
	}
	return 0
}

// countUnderOldKeys counts the values that are not sealed with the active key.
func countUnderOldKeys(rows []keyRow) int64 {
	n := int64(0)
	for _, r := range rows {
		for _, u := range r.Usage {
			if !r.Active {
				n += u.Values
			}
		}
	}
	return n
}

// leftUnderOldKeys returns a violation if values are still under an old key after everything was resealed.
func leftUnderOldKeys(rows []keyRow) (out []violation) {
	if n := countUnderOldKeys(rows); n > 0 {
		out = append(out, rig.NewViolation(keptOldKey, "%d values are still under an old key or in plain: %+v", n, rows))
	}
	return out
}

// beginSealing starts to seal. The first key is made while nothing runs, and everything in plain text is sealed with
// it. Before that, erased content must be gone.
func (c *campaign) beginSealing(ctx context.Context) error {
	for _, s := range c.servers {
		if _, err := s.stop(false); err != nil {
			return err
		}
	}
	if err := c.checkLeaks(ctx, false); err != nil {
		return err
	}
	c.mu.Lock()
	c.keyringFile = filepath.Join(c.Dir, "keyring")
	c.mu.Unlock()
	for _, s := range c.servers {
		if err := s.configure(variants[0].text(c.keyringFile, c.addresses)); err != nil {
			return err
		}
	}
	o := &operator{campaign: c, name: "keeper", random: c.randomFor(0, 220)}
	if err := o.mustRun(ctx, "keys rotate", nil, "keys", "rotate", "--wait", "0s"); err != nil {
		return err
	}
	for _, s := range c.servers {
		if err := s.start(ctx, variants[0], variants[0].text(c.keyringFile, c.addresses)); err != nil {
			return err
		}
	}
	return o.mustRun(ctx, "keys reseal", nil, "keys", "reseal")
}
