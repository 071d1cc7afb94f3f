package app

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect/mail"
)

// NewStore makes the store of effects for a command, which settles effects and wakes the effects
// that waited for them, but carries out none. keys opens sealed data; nil opens none.
func NewStore(pool *pgxpool.Pool, keys *seal.Keyring) (*inbox.Effects, error) {
	return inbox.NewEffects(inbox.EffectsConfig{Pool: pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "cli", Keyring: keys, EvidenceOf: mail.MessageID})
}

// DescribeMessage tells what a rendered message says, and whether the bytes are one.
func DescribeMessage(rendered []byte) (read.Message, bool) {
	recipient, subject, id, ok := mail.Describe(rendered)
	return read.Message{Recipient: recipient, Subject: subject, MessageID: id}, ok
}
