package jobs

import (
	"context"
	"errors"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// errElsewhere is the end of an effect that may have happened at an address at which this
// process cannot repeat it.
var errElsewhere = errors.New("an attempt may have happened at another address than this configuration has")

// fixing is what is decided about where the attempts of an effect go.
type fixing struct {
	// made: the address was made now, and is to be stored before anything is sent.
	made bool
	// replaces: what was stored before does not hold any more. No attempt can have happened.
	replaces bool
}

// fixAddress gives the call the address of all its attempts. The one that was stored for the first attempt
// stays, whatever the configuration says since: the target may have done the work there. Only where no
// attempt can have happened, and the address is another server's by now, is it made anew.
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
		// No address was stored: either nothing was sent, or the target had one address for all
		// then, and the route another version.
		if unknown && (claim.Rendered != nil || claim.RouteVersion != r.Version) {
			return f, errElsewhere
		}
		f.made, f.replaces = true, claim.Rendered != nil
	}
	call.Address = address
	return f, nil
}

// fixCall gives an attempt its address, and what is to be stored before anything is sent; nil if all of it
// is stored. s says how the effect ends if it cannot have one.
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

// openRendered reads what is stored of an attempt's request.
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
