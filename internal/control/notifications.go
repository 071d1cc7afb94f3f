package control

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/notification"
	"github.com/oncegate/oncegate/inbox/read"
)

// Notification is something that waits for an operator, and what operators were told about it.
type Notification struct{ notification.Open }

// ListNotifications lists what operators are told about.
var ListNotifications = Operation[NoRequest, read.Page[Notification]]{
	ID: "list_notifications", Method: "GET", Path: "/notifications", Scope: ReadMetadata,
	Summary: "List what waits for an operator as of the last look, and when operators were told. Empty if the configuration has no notifications.source.",
	Do: func(ctx context.Context, s *Service, access Access, _ NoRequest) (page read.Page[Notification], err error) {
		if err := access.untenanted("notifications"); err != nil {
			return page, err
		}
		open, err := notification.List(ctx, s.cfg.Lists)
		return whole(mapped(open, func(o notification.Open) Notification { return Notification{o} })), err
	},
}

// TestNotificationsRequest says why a test message is sent.
type TestNotificationsRequest struct {
	Explained `required:"reason"`
}

// TestedNotifications says where a test message went.
type TestedNotifications struct {
	// Source is the source that messages are emitted to.
	Source string `json:"source"`

	// EventID is the sender's id of the event that carries the test message. The event is recorded within about a second.
	EventID string `json:"event_id"`
}

// AuditTestNotifications records that a test message was sent. Stored: never change.
const AuditTestNotifications inbox.AuditAction = "notifications.test"

// TestNotifications sends a test message the way that messages take.
var TestNotifications = Operation[TestNotificationsRequest, TestedNotifications]{
	ID: "test_notifications", Method: "POST", Path: "/notifications/test", Scope: Operate,
	Summary: "Send a test message the way that notifications take: it is emitted to their source, and its routes carry it on. The type of the event is attention.test.",
	Why:     "why is a test sent?",
	Do: func(ctx context.Context, s *Service, access Access, r TestNotificationsRequest) (out TestedNotifications, err error) {
		if err := access.untenanted("notifications"); err != nil {
			return out, err
		}
		if err := inbox.CheckExplanation(access.Actor, r.Reason); err != nil {
			return out, err
		}
		url := ""
		if s.cfg.Settings != nil {
			url = s.cfg.Settings.Console.URL
		}
		err = pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) (err error) {
			if out.Source, out.EventID, err = notification.SendTest(ctx, tx, url); err != nil {
				return err
			}
			return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{At: s.cfg.Now(), Actor: access.Actor, Action: AuditTestNotifications, Object: "source/" + out.Source, Reason: r.Reason})
		})
		if closed := new(notification.SourceError); errors.Is(err, notification.ErrOff) || errors.As(err, &closed) {
			return out, invalid("%v", err)
		}
		return out, err
	},
}
