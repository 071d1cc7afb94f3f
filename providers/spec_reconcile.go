package providers

// ReconcileSpec says how to ask the sender's API which events there were, so that Oncegate can find
// those that never arrived. Package listing sends the requests.
//
// Path, the values of Query and Headers, and Body may contain {{since}} and {{until}}, the ends of
// the period, and the parameters of the source, such as {{site}}. Base may contain parameters. The
// path of Redeliver may also contain {{delivery}}. A member of the query whose value is empty is
// left out.
type ReconcileSpec struct {
	// Docs is the page on which the sender documents the list. It is required.
	Docs string `yaml:"docs"`

	// Base is the address of the API, https only, without a path. Requests go to this host and to
	// no other one.
	Base string `yaml:"base"`

	// Params declares what a source adds: an account, a repository.
	Params []ReconcileParam `yaml:"params"`

	Auth ReconcileAuth `yaml:"auth"`

	// Method is GET (the default) or POST, and Body the JSON object of a POST.
	Method  string            `yaml:"method"`
	Path    string            `yaml:"path"`
	Query   map[string]string `yaml:"query"`
	Headers map[string]string `yaml:"headers"`
	Body    string            `yaml:"body"`

	// Time is how {{since}} and {{until}} are written: s or ms (since 1970), or rfc3339.
	Time string `yaml:"time"`

	// Events is the JSON path of the array in the answer. Event is the JSON path of the webhook's event
	// in an element of the array, "$" by default.
	Events string `yaml:"events"`
	Event  string `yaml:"event"`

	// Wrap is the webhook's body around {{event}}, for senders whose webhooks contain a batch.
	Wrap string `yaml:"wrap"`

	// Signed says that the event, wrapped, is the signed body of a webhook. Oncegate then verifies it
	// like a delivery and reads the id and the time from it, so ID and Created are absent. The
	// provider's scheme must need no secret, because the list has none.
	Signed bool `yaml:"signed"`

	// ID is the JSON path of the event's id in an element. Where events are admitted, the id must be
	// the one that identity reads from the event.
	ID string `yaml:"id"`

	// Created is when the event was created.
	Created ReconcileTime `yaml:"created"`

	// Order is newest, oldest or unknown: which events the list begins with. A list that begins with
	// the newest is read until an event is older than the period.
	Order string `yaml:"order"`

	Page ReconcilePage `yaml:"page"`

	// Redeliver asks the sender to deliver an event again. If it is present, Oncegate admits nothing
	// from the list, because the missing events arrive as signed deliveries.
	Redeliver ReconcileRedeliver `yaml:"redeliver"`

	// Rate is how many requests the API allows.
	Rate ReconcileRate `yaml:"rate"`
}

// ReconcileParam is a value that a source sets for the list.
type ReconcileParam struct {
	Name    string `yaml:"name"`
	About   string `yaml:"about"`
	Example string `yaml:"example"`

	// Default is the value if the source sets none. Without one the parameter is required.
	Default string `yaml:"default"`
}

// ReconcileAuth says how the credential of a source is sent.
type ReconcileAuth struct {
	// Kind says what the credential is and how Oncegate uses it:
	//   - bearer: a token, which each request carries.
	//   - basic: user:password, or only a user, whose password is then empty.
	//   - oauth: client_id:client_secret. The server at Token exchanges it for a token that expires
	//     (RFC 6749, section 4.4).
	//   - jwt: a private key in PEM. Oncegate signs a token for each request with it, by ES256 (RFC 7519).
	Kind string `yaml:"kind"`

	// Token is the path of the address that issues tokens, on the host of the list.
	Token string `yaml:"token"`

	// KeyID is the header kid of a JWT. Claims are its claims, in addition to iat and exp. Both may
	// contain parameters.
	KeyID  string            `yaml:"key_id"`
	Claims map[string]string `yaml:"claims"`

	// About says which credential that is, where it is made and which permission it needs.
	About string `yaml:"about"`
}

// ReconcileTime is a time in an element of the list.
type ReconcileTime struct {
	JSON string `yaml:"json"`
	Unit string `yaml:"unit"`
}

// ReconcilePage says how the next page is found.
type ReconcilePage struct {
	// Kind is last (Param is the id of the page's last element), token (Param is the text at Next),
	// url (the address is at Next), links (Next is an array of objects with href and rel, and the
	// address is the href whose rel is next) or link (the address is in the header Link, as RFC 8288's
	// next).
	Kind string `yaml:"kind"`

	// Param is a parameter of the query or, of a POST, a member of its body unless Query is true.
	Param string `yaml:"param"`
	Query bool   `yaml:"query"`
	Next  string `yaml:"next"`

	// More is the JSON path of a boolean that is false on the last page.
	More string `yaml:"more"`
}

// ReconcileRedeliver is the request for one more delivery.
type ReconcileRedeliver struct {
	Docs   string `yaml:"docs"`
	Method string `yaml:"method"`
	Path   string `yaml:"path"`

	// Delivery is the JSON path of the value that replaces {{delivery}}, in an element of the array.
	Delivery string `yaml:"delivery"`
}

// ReconcileRate is the most requests in a period, and where that is documented.
type ReconcileRate struct {
	Requests int      `yaml:"requests"`
	Per      Duration `yaml:"per"`
	Source   string   `yaml:"source"`
	Note     string   `yaml:"note"`
}

// Present reports whether the provider has a list that can be asked.
func (r *ReconcileSpec) Present() bool { return r.Docs != "" || r.Base != "" || r.Path != "" }

// Redelivers reports whether the sender delivers missing events again.
func (r *ReconcileSpec) Redelivers() bool { return r.Redeliver != (ReconcileRedeliver{}) }
