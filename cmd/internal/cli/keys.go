package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/migrations"
)

func (s *shell) keysCommand() *cobra.Command {
	return group("keys", "List, rotate and remove the keys under which bodies and results are sealed",
		s.keysListCommand(), s.keysRotateCommand(), s.keysActivateCommand(), s.keysRemoveCommand(), inEach(s, s.resealCommand()))
}

// ring returns the configured keyring: its configuration and its content. The content is nil if the
// keyring's file does not exist yet.
func (s *shell) ring() (config.Seal, *seal.Ring, error) {
	cfg, err := config.Load(config.Options{File: s.configFile, Environ: s.environ, Database: s.databaseName, DatabaseOnly: true, KeyringLater: true})
	if err != nil {
		return config.Seal{}, nil, err
	}
	if cfg.Seal.Keyring == "" {
		return cfg.Seal, nil, errorf(errorcode.KeyMissing, "no keyring is configured: set seal.keyring to file:PATH, or ONCEGATE_KEYRING_FILE; `oncegate keys rotate` then makes the file")
	}
	if path := cfg.Seal.Path(); path != "" {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return cfg.Seal, nil, nil
		}
	}
	keys, err := cfg.Seal.Open(nil)
	if err != nil {
		return cfg.Seal, nil, errorf(errorcode.KeyMissing, "seal.keyring: %v", err)
	}
	return cfg.Seal, keys.Ring(), nil
}

func (s *shell) keysListCommand() *cobra.Command {
	var r control.ListKeysRequest
	cmd := &cobra.Command{
		Use: "list", Short: "List the keys of the keyring; never their content", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := s.listKeys(cmd.Context(), r)
			if err != nil {
				return err
			}
			return showRows(s, cmd, keyColumns(r.Usage), rows)
		},
	}
	requestFlags(cmd, &r)
	return cmd
}

// listKeys returns the keys of a server or of the local keyring. The latter requires no database
// unless the usage is asked for.
func (s *shell) listKeys(ctx context.Context, r control.ListKeysRequest) (rows []control.Key, err error) {
	if s.server != "" {
		err := s.control(ctx, "", func(caller control.Caller) error {
			page, err := control.Call(ctx, caller, &control.ListKeys, r)
			rows = page.Data
			return err
		})
		return rows, err
	}
	_, ring, err := s.ring()
	if err != nil {
		return nil, err
	}
	var used []prune.KeyUsage
	if r.Usage {
		if used, err = s.keyUsages(ctx); err != nil {
			return nil, err
		}
	}
	return control.KeysOf(ring, used), nil
}

func (s *shell) keyUsages(ctx context.Context) ([]prune.KeyUsage, error) {
	var out []prune.KeyUsage
	for _, member := range s.members() {
		pool, err := member.openPool(ctx)
		if err != nil {
			return nil, err
		}
		used, err := prune.KeyUsages(ctx, pool)
		pool.Close()
		if err != nil {
			return nil, err
		}
		out = append(out, used...)
	}
	return out, nil
}

// showKeys lists the keys after a change.
func (s *shell) showKeys() error {
	_, ring, err := s.ring()
	if err != nil {
		return err
	}
	rows := control.KeysOf(ring, nil)
	return s.show(keyColumns(false).table(s, rows), emptyList(rows))
}

// keyColumns returns the columns of keys. counted adds the number of values that each key seals.
func keyColumns(counted bool) *columns[control.Key] {
	c := &columns[control.Key]{header: []string{"KEY", "ACTIVE", "FINGERPRINT"}, ids: []string{"KEY", "FINGERPRINT"}}
	if counted {
		c.header = append(c.header, "VALUES")
	}
	c.cells = func(r *control.Key) []any {
		values := int64(0)
		for _, u := range r.Usage {
			values += u.Values
		}
		return []any{r.ID, r.Active, r.Fingerprint, values}[:len(c.header)]
	}
	return c
}

func (s *shell) keysRotateCommand() *cobra.Command {
	var d decision
	var prepare bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "rotate", Short: "Add a new key to the keyring and seal with it once every process has it", Args: cobra.NoArgs,
		Long: "Add a new key to the keyring's file, wait until every running process has read it, and seal with\n" +
			"it from then on. This takes a few seconds. What was sealed before stays readable; `keys reseal`\n" +
			"seals it with the new key.\n\n" +
			"Where processes have files of their own, add the key with --prepare, copy the file to all of them,\n" +
			"run `keys activate`, and copy the file to all of them again.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkWait(wait); err != nil {
				return err
			}
			var added seal.Key
			first := false
			err := s.changeRing(cmd.Context(), d, inbox.AuditKeyRotate, func(ring *seal.Ring) (*seal.Ring, error) {
				if newest := newestKey(ring); newest.ID > activeKey(ring) {
					return nil, usagef("key %d was added and is not active: `oncegate keys activate %d` finishes that rotation", newest.ID, newest.ID)
				}
				first = ring == nil
				added = seal.NewKey(ring.Next())
				return ring.With(added, false), nil
			})
			if err != nil {
				return err
			}
			if !first && !prepare {
				if err := s.activate(cmd.Context(), d, added.ID, wait); err != nil {
					return err
				}
			}
			return s.showKeys()
		},
	}
	cmd.Flags().BoolVar(&prepare, "prepare", false, "only add the key: the active one stays")
	addWait(cmd, &wait)
	d.add(cmd)
	return cmd
}

// newestKey returns the most recently added key, or the zero Key if there is none.
func newestKey(ring *seal.Ring) seal.Key {
	if ring == nil {
		return seal.Key{}
	}
	keys := ring.Keys()
	return keys[len(keys)-1]
}

func activeKey(ring *seal.Ring) int32 {
	if ring == nil {
		return 0
	}
	return ring.Active().ID
}

func (s *shell) keysActivateCommand() *cobra.Command {
	var d decision
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "activate <key>", Short: "Seal with another key of the keyring once every process has it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := keyID(args[0])
			if err == nil {
				err = checkWait(wait)
			}
			if err != nil {
				return err
			}
			if err := s.activate(cmd.Context(), d, id, wait); err != nil {
				return err
			}
			return s.showKeys()
		},
	}
	addWait(cmd, &wait)
	d.add(cmd)
	return cmd
}

// activate makes a key the active key once every live process has it.
func (s *shell) activate(ctx context.Context, d decision, id int32, wait time.Duration) error {
	return s.changeRing(ctx, d, inbox.AuditKeyActivate, func(ring *seal.Ring) (*seal.Ring, error) {
		out, ok := ring.Activate(id)
		if !ok {
			return nil, errorf(errorcode.KeyMissing, "key %d is not in the keyring; `oncegate keys list` shows those that are", id)
		}
		err := s.awaitKey(ctx, out.Active(), wait, fmt.Sprintf("key %d is in the keyring and not active", id),
			fmt.Sprintf("bring it the keyring, or stop it; then `oncegate keys activate %d`", id))
		return out, err
	})
}

func (s *shell) keysRemoveCommand() *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: "remove <key>", Short: "Take a key out of the keyring once nothing is sealed with it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := keyID(args[0])
			if err != nil {
				return err
			}
			err = s.changeRing(cmd.Context(), d, inbox.AuditKeyRemove, func(ring *seal.Ring) (*seal.Ring, error) {
				out, ok := ring.Without(id)
				if !ok {
					return nil, errorf(errorcode.KeyMissing, "key %d is the active one or not in the keyring; `oncegate keys list` shows which are", id)
				}
				if err := s.unsealing(cmd.Context(), id); err != nil {
					return nil, err
				}
				used, err := s.keyUsages(cmd.Context())
				if err != nil {
					return nil, err
				}
				for _, u := range used {
					if u.Key == id {
						return nil, errorf(errorcode.WrongState, "key %d still seals %d values of %s.%s: run `oncegate keys reseal` first", id, u.Values, u.Table, u.Column)
					}
				}
				return out, nil
			})
			if err != nil {
				return err
			}
			return s.showKeys()
		},
	}
	d.add(cmd)
	return cmd
}

func keyID(text string) (int32, error) {
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil || id < 1 {
		return 0, usagef("%q is not a key's id; `oncegate keys list` shows them", clean(text))
	}
	return int32(id), nil
}

// changeRing writes an audit entry and then the changed keyring.
func (s *shell) changeRing(ctx context.Context, d decision, action inbox.AuditAction, change func(*seal.Ring) (*seal.Ring, error)) error {
	if err := d.check(s, "why is the keyring changed?"); err != nil {
		return err
	}
	where, ring, err := s.ring()
	if err != nil {
		return err
	}
	path := where.Path()
	if path == "" {
		return errorf(errorcode.KeyMissing, "the keyring is in %s, which only you can change: keep it in a file (seal.keyring: file:PATH) to have it rotated", where.Keyring)
	}
	if ring == nil && action != inbox.AuditKeyRotate {
		return errorf(errorcode.KeyMissing, "%s is not there yet; `oncegate keys rotate` makes it", path)
	}
	changed, err := change(ring)
	if err != nil {
		return err
	}
	for _, member := range s.of("").members() { // all databases share the keyring
		pool, err := member.openPool(ctx)
		if err != nil {
			return err
		}
		err = inbox.RecordKeyChange(ctx, pool, inbox.KeyChange{
			Action: action, Actor: d.actor, Reason: d.reason, Before: keyIDs(ring), After: keyIDs(changed),
		})
		pool.Close()
		if err != nil {
			return err
		}
	}
	return writeRing(path, changed)
}

func keyIDs(ring *seal.Ring) inbox.KeyIDs {
	out := inbox.KeyIDs{Keys: []int32{}}
	if ring == nil {
		return out
	}
	out.Active = ring.Active().ID
	for _, k := range ring.Keys() {
		out.Keys = append(out.Keys, k.ID)
	}
	return out
}

// writeRing replaces the file in one step, so that a process that reads it sees either the old keys
// or the new ones, and a full disk leaves the old ones intact.
func writeRing(path string, ring *seal.Ring) (err error) {
	mode := os.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".keyring-*")
	if err != nil {
		return fmt.Errorf("writing the keyring: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
			err = fmt.Errorf("writing the keyring: %w", err)
		}
	}()
	_, err = file.Write(ring.Text())
	if err := errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func (s *shell) resealCommand() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "reseal", Short: "Seal everything that is kept with the active key", Args: cobra.NoArgs,
		Long: "Seal all kept content with the active key, including content that is not sealed yet. It works in small\n" +
			"transactions during deliveries. You can stop it and start it again.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			keys, err := s.keyring()
			if err == nil {
				err = checkWait(wait)
			}
			if err != nil {
				return err
			}
			if keys == nil {
				return errorf(errorcode.KeyMissing, "no keyring is configured: set seal.keyring or ONCEGATE_KEYRING_FILE")
			}
			pool, err := s.openPool(cmd.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			if err := migrations.Validate(cmd.Context(), pool); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			// A process without the key could not read resealed values.
			err = s.awaitKey(cmd.Context(), keys.Ring().Active(), wait, "nothing was resealed", "bring it the keyring, or stop it; then reseal again")
			if err != nil {
				return err
			}
			archive, err := s.archive(pool, keys)
			if err != nil {
				return err
			}
			bar := s.progress(-1, "resealing")
			end, err := prune.Reseal(ctx, prune.ResealConfig{Pool: pool, Keyring: keys, Archive: archive, Progress: func(p prune.ResealProgress) {
				bar.describe("resealing " + p.Table)
				bar.at(p.Looked)
			}})
			bar.done()
			if err != nil {
				return err
			}
			if s.output == "json" {
				err = s.json(map[string]any{"resealed": end.Resealed, "unreadable": end.Unreadable, "missing_keys": emptyList(end.MissingKeys)})
			} else {
				fmt.Fprintf(s.out, "%d values are under key %d now\n", end.Resealed, keys.Ring().Active().ID)
			}
			if err == nil && end.Unreadable > 0 {
				return failf(operationCode(control.CodeKeyMissing), "%d values cannot be opened and stay as they are: %s", end.Unreadable, missingKeys(end.MissingKeys))
			}
			return err
		},
	}
	addWait(cmd, &wait)
	return cmd
}

// missingKeys describes which keys are missing to open some values.
func missingKeys(ids []int32) string {
	if len(ids) == 0 {
		return "they do not open with their keys"
	}
	slices.Sort(ids)
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.Itoa(int(id))
	}
	return "the keyring lacks their keys, which are " + strings.Join(texts, ", ")
}
