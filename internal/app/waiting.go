package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/session"
)

// ErrNotWaiting is wrapped by the errors of [OpenWaiting].
var ErrNotWaiting = errors.New("the process cannot start without the database")

// startNote is what a process that has started stores with the buffer, so that another one can start while the database is away.
// It is sealed with the keyring. Stored: never change the names.
type startNote struct {
	// Configuration is the fingerprint of the configuration that the database has accepted.
	Configuration string `json:"configuration"`

	// FirstNames are the names with which keys are made, by the present names of the sources.
	FirstNames map[string]string `json:"first_names"`

	// Secret is the secret under which the ids of messages are hashed; nil without a keyring.
	Secret []byte `json:"secret,omitempty"`
}

// sealedNote is a startNote as it is stored.
type sealedNote struct {
	Key  *int32 `json:"key,omitempty"`
	Note []byte `json:"note"`
}

var startNotePlace = seal.Place{Table: "buffer", Column: "start"}

// bufferSecret returns the secret under which the ids of buffered deliveries are hashed. It is derived, because it is stored
// outside of the database.
func (a *App) bufferSecret() []byte {
	switch {
	case a.waiting != nil:
		return a.waiting.Secret
	case a.installation.Value == nil:
		return nil
	}
	mac := hmac.New(sha256.New, a.installation.Value)
	mac.Write([]byte("oncegate buffer ids"))
	return mac.Sum(nil)
}

// rememberStart stores with the buffer that the database has accepted the configuration.
func (a *App) rememberStart(ctx context.Context) error {
	note := startNote{Configuration: a.settings.Fingerprint(), FirstNames: map[string]string{}, Secret: a.bufferSecret()}
	for name := range a.sources {
		note.FirstNames[name] = a.sources[name].KeyName
	}
	text, err := json.Marshal(note) //nolint:gosec // there is no secret unless the note is sealed
	if err != nil {
		return err
	}
	var stored sealedNote
	stored.Note, stored.Key = a.keys.Seal(startNotePlace, text)
	if text, err = json.Marshal(stored); err != nil {
		return err
	}
	return a.buffered.stream.Keep(ctx, text)
}

// readNote returns what the process stored that started last.
func readNote(ctx context.Context, stream *broker.Stream, keys *seal.Keyring) (*startNote, error) {
	text, err := stream.Kept(ctx)
	if err != nil {
		return nil, err
	}
	if text == nil {
		return nil, errors.New("no process has started with the buffer before")
	}
	var stored sealedNote
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("the note of the last start cannot be read: %w", err)
	}
	if stored.Note, err = keys.Open(startNotePlace, stored.Key, stored.Note); err != nil {
		return nil, fmt.Errorf("the note of the last start cannot be opened: %w", err)
	}
	note := new(startNote)
	if err := json.Unmarshal(stored.Note, note); err != nil {
		return nil, fmt.Errorf("the note of the last start cannot be read: %w", err)
	}
	return note, nil
}

// OpenWaiting makes a process that takes deliveries into the buffer while the database is away. The database has accepted its
// configuration before: the process that started last had the same. Everything that needs the database is answered with 503. The
// caller opens an ordinary App with [Parts.After] when the database is back. Its error wraps [ErrNotWaiting] and says why the
// process cannot start.
func OpenWaiting(ctx context.Context, cfg Config) (*App, error) {
	if cfg.Settings == nil || !cfg.Settings.Buffer.On() || !cfg.Receive {
		return nil, fmt.Errorf("%w: it has no buffer or does not receive", ErrNotWaiting)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	keys, err := cfg.Settings.Seal.Open(cfg.Now)
	if err != nil {
		return nil, fmt.Errorf("%w: opening seal.keyring: %w", ErrNotWaiting, err)
	}
	stream, err := broker.NewStream(cfg.Settings.Buffer.StreamConfig())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotWaiting, err)
	}
	note, err := readNote(ctx, stream, keys)
	stream.Close()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotWaiting, err)
	}
	if note.Configuration != cfg.Settings.Fingerprint() {
		return nil, fmt.Errorf("%w: the process that started last had another configuration, %s", ErrNotWaiting, note.Configuration)
	}
	cfg.Work, cfg.Uncounted = false, true // counts and effects need the ids that only the database has
	a, err := open(ctx, cfg, true)
	if err != nil {
		return nil, err
	}
	a.waiting = note
	return a, nil
}

// IsAway reports whether an error of [Open] means that the database cannot be reached or takes no writes at present.
func IsAway(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "57P01", "57P02", "57P03", "53300", "25006": // shut down, starting, no room for a connection, read-only
			return true
		}
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	return pgconn.Timeout(err) || errors.Is(err, inbox.ErrStandby) || errors.Is(err, inbox.ErrReadOnly) || errors.Is(err, session.ErrNoPrimary)
}

// Waiting reports whether the App takes deliveries into the buffer until the database is back.
func (a *App) Waiting() bool { return a.waiting != nil }

// DatabaseBack reports whether the database takes writes again, for an App that waits for it.
func (a *App) DatabaseBack(ctx context.Context) bool { return inbox.Writable(ctx, a.adminPool) == nil }

// awayGate is the gate of a process that waits for the database.
type awayGate struct{}

// Accept implements [inbox.Accepter].
func (awayGate) Accept(context.Context, *inbox.Admission) (inbox.Receipt, error) {
	return inbox.Receipt{}, fmt.Errorf("%w: the database is away", gate.ErrUnavailable)
}

// onlyWaiting removes the steps of the start that need the database.
func (a *App) onlyWaiting() {
	a.starts = slices.DeleteFunc(a.starts, func(s step) bool { return s.name != bufferStep })
}

// waitingReceiver answers requests with 503 that need the database: those to sources that are not buffered, and those that are
// no deliveries.
func (a *App) waitingReceiver(next http.Handler) http.Handler {
	buffered := map[string]bool{}
	for _, s := range a.settings.Sources {
		for _, name := range append(slices.Clone(s.Previous.Names), s.Name) {
			buffered[name] = a.settings.Buffers(s) && !s.Disabled
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/in/"), "/")
		if keeps, known := buffered[name]; known && (!keeps || rest != "") {
			refuse(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
