package storetest

import (
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
)

// Queue returns the queue that the product uses.
func Queue() inbox.Enqueuer { return jobs.NewQueue(jobs.QueueConfig{}) }
