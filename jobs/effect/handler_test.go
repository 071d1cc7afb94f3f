package effect_test

import (
	"testing"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
)

func TestOutsideHandlerConforms(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	effecttest.Run(t, effecttest.Outside(func(_ testing.TB, handle effecttest.Handle) effect.Sender {
		return &effect.OutsideHandler{Handle: handle}
	}))
}

func TestNoopConforms(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	effecttest.Run(t, effecttest.Nothing(func(testing.TB) effect.Sender { return effect.Noop{} }))
}
