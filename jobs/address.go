package jobs

import (
	"context"
	"errors"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// errElsewhere ends an effect that may have happened at an address at which this process cannot repeat it.
var errElsewhere = errors.New("an attempt may have happened at another address than this configuration has")

// fixing describes how the address of an effect's attempts was chosen.
type fixing struct {
	// made means that the address was computed now and must be stored before anything is sent.
	made bool
	// replaces means that what was stored before is invalid. No attempt can have happened.
	replaces bool
}

// fixAddress sets the address that all attempts of the effect use. It keeps the address that was stored
// for the first attempt, even if the configuration has changed since, because the target may have done the
// work there. It replaces a stored address only if no attempt can have happened and the target no longer
// reaches that address.
func (r *Route) fixAddress(kind effect.Sender, claim *inbox.Claim, call *effect.Call) (f fixing, err error) {
	target, ok := kind.(effect.Addresser)
	if !ok {
		return f, nil
	}
	unknown := !claim.UnknownSince.IsZero()
	if call.Address != "" {
		switch {
		case target.Reaches(call.Address):
			return f, nil
		case unknown:
			return f, errElsewhere
		}
		f.made, f.replaces = true, true
	}
	address, err := safeAddress(target, call)
	if err != nil {
		return f, err
	}
	if call.Address == "" && address != "" {
		// No address was stored. Either nothing was sent, or the target had a single address at that time
		// and the route another version.
		if unknown && (claim.Rendered != nil || claim.RouteVersion != r.Version) {
			return f, errElsewhere
		}
		f.made, f.replaces = true, claim.Rendered != nil
	}
	call.Address = address
	return f, nil
}

// fixCall sets the address of an attempt. store is what must be stored before anything is sent, or nil if
// everything is stored already. If the effect cannot have an address, s says how it ends.
func (a attempt) fixCall(ctx context.Context, call *effect.Call, rendered []byte) (store []byte, f fixing, s *inbox.Settlement) {
	f, err := a.route.fixAddress(a.route.sender, a.claim, call)
	switch {
	case errors.Is(err, errElsewhere):
		s := a.leaveElsewhere(ctx, a.route.Target+" at an earlier address")
		return nil, f, &s
	case err != nil:
		return nil, f, a.expressionFailure(ctx, "url", err)
	case f.made && call.Address == "":
		return call.Rendered, f, nil // replaces what was stored with an address
	case f.made:
		return effect.Rendered{Address: call.Address, Body: call.Rendered}.Bytes(), f, nil
	}
	return rendered, f, nil
}

// openRendered splits the stored request of an attempt into address and body.
func openRendered(call *effect.Call) error {
	fixed, err := effect.ReadRendered(call.Rendered)
	call.Address, call.Rendered = fixed.Address, fixed.Body
	return err
}

func safeAddress(target effect.Addresser, call *effect.Call) (address string, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New(reasons.Render)
		}
	}()
	return target.Address(call)
}
