// Package embedded lets package oncegatetest see what an Inbox of the root package keeps to itself. Programs that embed
// Oncegate see nothing of it.
package embedded

import "github.com/oncegate/oncegate/internal/config"

// Settings returns the configuration of a *oncegate.Inbox. The root package sets it, because this package cannot
// import it.
var Settings func(inbox any) *config.Config
