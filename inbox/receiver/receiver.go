package receiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/providers"
)

// Accepter is the gate. It answers only after the commit; any error but [gate.ErrOverloaded],
// [inbox.ErrSuspectedRepeat] and [inbox.ErrNotFollowed] is a fault of ours. When it returns without an error or with
// one of these, it no longer uses the admission's body.
type Accepter interface {
	Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error)
}

// RefusalKeeper keeps refused deliveries for the operator. Add must not wait,
// and must copy what it keeps. [refusal.Store] is one.
type RefusalKeeper interface {
	Add(r refusal.Refusal) bool
}

// Provider is what the receiver asks of a provider; [providers.Provider] is one.
type Provider interface {
	Limits() providers.Limits
	Handshake(req *providers.Request, secrets []providers.Secret) (providers.Reply, bool, error)
	Verify(req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error)
	Answer(kind providers.AnswerKind, event, status string) providers.Reply
	IsOperation() bool
}

// Source is a source as the receiver serves it.
type Source struct {
	// Inbox is the source as the gate knows it.
	Inbox *inbox.Source

	// Disabled has the source answered as if there were none.
	Disabled bool

	// Consumed means that messages of a broker come through [Receiver.Deliver]. Unserved means that nothing comes over HTTP,
	// where the source is answered as if there were none.
	Consumed, Unserved bool

	// MetricLabel is the label under which metrics count the source: its name if that is empty, or [OtherSource].
	MetricLabel string

	// FailureLimit is how many failures in a row make the sender stop delivering; 0 is not known.
	FailureLimit int

	Provider Provider

	// Buffered passes deliveries over HTTP to [Config.Buffer].
	Buffered bool

	// Secrets returns the secrets that are accepted now, newest first. It is called for every delivery, so that a
	// rotation needs no restart.
	Secrets func() []providers.Secret

	// ExternalURL is the address the sender was given, for schemes that sign it.
	// Empty takes what the request says.
	ExternalURL string

	// MaxBody is the largest body in bytes; 0 takes the provider's.
	MaxBody int64

	// Deliveries is how many verified deliveries are accepted. Unverified ones do not count, so that a flood of forgeries
	// cannot use up a sender's quota.
	Deliveries Quota

	// NewKeys is how many new keys an operation source takes a minute in this
	// process (429 beyond it); repeated calls are always answered. 0 is no limit.
	NewKeys int

	// Credentials say, by name, what the callers of an operation source may do. A credential
	// whose secret the source has and that is not named here may call everything, for the source's tenant.
	Credentials map[string]Credential

	// Sessions says whether callers of an operation source may open sessions for agents.
	Sessions SessionLimits

	// Operations are what an operation source declares, by the operations' names. nil declares
	// nothing: Provider then takes any name.
	Operations map[string]*Operation

	// MinKey is how many characters a key that a caller chose must have, where Operations is nil;
	// 0 is no limit.
	MinKey int

	// KeyFields are the fields that keys are made of, for operations that have none of their own. Callers are shown them; Provider
	// decides.
	KeyFields []string

	// Repeats looks for calls of operations that are made again under another key, of those that say
	// nothing else themselves.
	Repeats Repeats

	// LongestWait is how long a caller of an operation may wait for its result. 0
	// is the default of 30 s, -1 is not at all. It must be less than the server's
	// WriteTimeout by the gate's deadline.
	LongestWait time.Duration

	// Keep names headers to keep with a delivery, in addition to those that the provider reads: those that a target
	// gets. Credentials are never kept.
	Keep []string

	// PreviousNames are names under which the source is served as well, unless another
	// source has them: a sender still calls the address that it was given.
	PreviousNames []string

	// Paused reports whether an operator has paused the source. All its deliveries are then answered with 503, so that the sender
	// keeps them, and nothing is recorded. It is asked for each request, so it must be quick. nil means never.
	Paused func() bool

	// AnswerOutcome answers a duplicate that carries one event with the event's outcome, instead of the provider's
	// acknowledgement. Operations always do.
	AnswerOutcome bool
}

// Config configures a [Receiver]. Gate and Logger are required.
type Config struct {
	Gate Accepter

	// Buffer takes the deliveries of sources with [Source.Buffered] in place of Gate. It returns [buffer.ErrBuffered] for one
	// that it keeps, and may still use the admission's body then. It may be nil if there is no such source.
	Buffer Accepter

	// Sources are served at /in/ followed by their key, or by one of their previous names.
	Sources map[string]*Source

	// TenantKeys are, by the tenant's name, how many new keys operations may take for it in
	// this process, in all sources together.
	TenantKeys map[string]Quota

	// TenantDeliveries are, by the tenant's name, how many verified deliveries its webhook sources accept in this process, all
	// together.
	TenantDeliveries map[string]Quota

	// Outcomes provides the outcomes for answers to operations and duplicates. It may be nil: operations are then
	// acknowledged like any delivery, and there are no quotas of new keys and no AnswerOutcome.
	Outcomes Outcomes

	// Installation is the secret under which hashes of content are stored, as in the gate's configuration.
	Installation inbox.InstallationSecret

	// Sessions keeps the sessions of agents. It may be nil, if no source allows any.
	Sessions SessionStore

	// Refusals may be nil: refused deliveries are then only counted.
	Refusals RefusalKeeper

	// Metrics may be nil: nothing is then counted.
	Metrics *Metrics

	// Tracer makes spans of requests. nil makes none.
	Tracer Tracer

	// Rollup counts deliveries by minute for people to look at. It may be nil.
	Rollup *rollup.Recorder

	Logger *slog.Logger

	// Node names this process in the log lines about an event; empty leaves it out.
	Node string

	// LogEvery logs every refusal and every fault, for a logger that bounds repeated lines itself. Otherwise at most
	// one line a second is written about the refusals of a source, and one about its faults.
	LogEvery bool

	// Now is the clock; give it the one that is corrected to the database's. It
	// defaults to time.Now.
	Now func() time.Time

	// Doubted reports whether Now may be wrong. It is called only for a delivery whose only fault is its time. If it
	// reports true, the answer is 503 and not a refusal, because a wrong clock is our fault. It may wait a moment,
	// until it knows. nil means never.
	Doubted func(context.Context) bool

	// SystemNow is the clock of the machine, which the deadlines of connections
	// are on. It defaults to time.Now.
	SystemNow func() time.Time

	// TrustedProxies are the networks whose X-Forwarded-For, X-Forwarded-Proto and
	// X-Request-Id are believed. None by default: the sender is then the direct peer.
	TrustedProxies []netip.Prefix

	BodyLimits

	// After is the receiver of the same process whose place this one takes, or nil. What was used up of its quotas stays
	// used up.
	After *Receiver
}

// Receiver takes deliveries.
type Receiver struct {
	cfg        Config
	sources    map[string]*endpoint
	consumed   map[string]*endpoint // by the name of the source alone
	bodies     *bodies
	metrics    *Metrics
	remote     echo.IPExtractor
	requests   requestIDs
	operations *operations
	quotas     *quotaSet
}

// New checks the configuration, all of it, and makes a receiver.
func New(cfg Config) (*Receiver, error) {
	var errs []error
	if cfg.Gate == nil {
		errs = append(errs, errors.New("receiver: Gate is required"))
	}
	if cfg.Logger == nil {
		errs = append(errs, errors.New("receiver: Logger is required"))
	}
	limits, err := cfg.resolve(max(len(cfg.Sources), 1))
	if err != nil {
		errs = append(errs, fmt.Errorf("receiver: %w", err))
	}
	cfg.Now, cfg.SystemNow = clock(cfg.Now), clock(cfg.SystemNow)
	if cfg.Metrics == nil {
		metrics, err := NewMetrics(nil)
		if err != nil {
			return nil, err
		}
		cfg.Metrics = metrics
	}
	quotas := newQuotaSet(cfg.After)
	tenantKeys, err := quotas.tenants(countsKeys, cfg.TenantKeys)
	if err != nil {
		errs = append(errs, err)
	}
	tenantDeliveries, err := quotas.tenants(countsDeliveries, cfg.TenantDeliveries)
	if err != nil {
		errs = append(errs, err)
	}
	sources, consumed := make(map[string]*endpoint, len(cfg.Sources)), map[string]*endpoint{}
	for name, source := range cfg.Sources {
		e, err := newEndpoint(name, source, &limits, quotas, tenantKeys, cfg.Metrics)
		if e != nil {
			e.quotas = joinQuotas(quotas.bucket(name, "source "+name, countsDeliveries, source.Deliveries), tenantDeliveries[e.webhookTenant()])
			e.count.rollUp(cfg.Rollup, source.Inbox.ID, e.callers.tenants())
		}
		if source != nil && cfg.Outcomes == nil && (source.AnswerOutcome || e.limitsKeys()) {
			errs = append(errs, fmt.Errorf("receiver: source %q: AnswerOutcome and quotas of new keys need Outcomes", name))
		}
		if source != nil && source.Buffered && cfg.Buffer == nil {
			errs = append(errs, fmt.Errorf("receiver: source %q: Buffered needs Config.Buffer", name))
		}
		if e != nil && e.sessions != nil && cfg.Sessions == nil {
			errs = append(errs, fmt.Errorf("receiver: source %q: Sessions.Longest needs Config.Sessions", name))
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !source.Disabled && !source.Unserved {
			sources[name] = e
		}
		if !source.Disabled && source.Consumed {
			consumed[name] = e
		}
	}
	for name, source := range cfg.Sources {
		for _, previous := range previousNames(source) {
			if _, taken := cfg.Sources[previous]; !taken && sources[name] != nil {
				sources[previous] = sources[name]
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r := &Receiver{
		cfg:      cfg,
		sources:  sources,
		consumed: consumed,
		bodies:   newBodies(limits, cfg.SystemNow, &cfg.Metrics.bodyBytesInFlight),
		metrics:  cfg.Metrics,
		remote:   newExtractor(cfg.TrustedProxies),
		requests: newRequestIDs(),
		quotas:   quotas,
	}
	r.operations = &operations{Receiver: r, tokens: newSessionTokens(cfg.Sessions, cfg.After)}
	r.cfg.After, r.quotas.before = nil, nil // or no receiver would ever be forgotten
	hooks := &webhooks{r}
	for _, e := range sources {
		e.product = hooks
		if e.operation {
			e.product = r.operations
		}
	}
	return r, nil
}

func previousNames(s *Source) []string {
	if s == nil {
		return nil
	}
	return s.PreviousNames
}

func clock(now func() time.Time) func() time.Time {
	if now == nil {
		now = time.Now
	}
	return now
}

// Handler serves the receiver alone: /in/:source and 404 for everything else.
func (r *Receiver) Handler() http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = r.remote
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		if c.Response().Committed {
			return
		}
		r.hurry(c.Response().Writer, c.Request())
		status := http.StatusServiceUnavailable
		if known, ok := errors.AsType[*echo.HTTPError](err); ok && known.Code == http.StatusNotFound {
			status = http.StatusNotFound
		}
		_ = c.NoContent(status)
	}
	r.Register(e)
	return e
}

// drain is how long the server may still read from a sender whose body is not needed: long enough for a small one, so
// that the sender gets its answer.
const drain = time.Second

// hurry ends the connection with this answer. Before it closes, the server reads the rest of a body, and only a
// deadline bounds that. A connection of HTTP/2 stays open, because it also carries the deliveries of others, as from a
// proxy: there, the end of the handler ends the stream.
func (r *Receiver) hurry(w http.ResponseWriter, request *http.Request) {
	if request.ProtoMajor >= 2 {
		return
	}
	w.Header()["Connection"] = []string{"close"}
	_ = http.NewResponseController(w).SetReadDeadline(r.cfg.SystemNow().Add(drain))
}

// Router is the part of echo that [Receiver.Register] needs: an *echo.Echo or
// an *echo.Group.
type Router interface {
	Any(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) []*echo.Route
}

// Register mounts the receiver in an echo of the caller's. Middleware there must
// not read or change bodies.
func (r *Receiver) Register(router Router) {
	router.Any("/in/:source", r.Handle)
	router.Any("/in/:source/:event", r.HandleStatus)
	router.Any("/in/:source/operations", r.HandleContract)
	router.Any("/in/:source/sessions", r.HandleSessions)
	router.Any("/in/:source/sessions/:session", r.HandleSession)
}

// endpoint is a source prepared for the hot path.
type endpoint struct {
	*Source
	name         string
	product      product
	maxBody      int64
	methods      map[string]bool
	deliveries   map[string]bool // the methods that are more than handshakes
	allow        string
	contentTypes map[string]bool
	encodings    map[string]bool
	operation    bool
	unproved     bool // anybody can deliver to it
	proves       bool // something in a request proves its sender
	keep         []string
	quotas       quotas // of verified deliveries
	callers      *callers
	sessions     sessionProvider // nil where there are no sessions
	longestWait  time.Duration
	logs         *quota
	faults       *quota
	count        sourceMetrics
	calls        callCounters
	share        *share
}

func newEndpoint(name string, s *Source, limits *bodyLimits, quotas *quotaSet, tenants map[string]*quota, metrics *Metrics) (*endpoint, error) {
	if s == nil || s.Inbox == nil || s.Provider == nil || s.Secrets == nil {
		return nil, fmt.Errorf("receiver: source %q: Inbox, Provider and Secrets are required", name)
	}
	var errs []error
	asked := s.Provider.Limits()
	e := &endpoint{
		Source:       s,
		name:         name,
		maxBody:      s.MaxBody,
		methods:      set(asked.Methods, strings.ToUpper),
		deliveries:   set(asked.Deliveries, strings.ToUpper),
		allow:        strings.Join(asked.Methods, ", "),
		contentTypes: set(asked.ContentTypes, strings.ToLower),
		encodings:    set(asked.Encodings, strings.ToLower),
		operation:    s.Provider.IsOperation(),
		keep:         keptHeaders(s.Provider, s.Keep),
		longestWait:  s.LongestWait,
		logs:         newQuota(1),
		faults:       newQuota(1),
		share:        &share{reserve: limits.sourceReserve},
	}
	var err error
	if e.callers, err = newCallers(name, s, quotas, tenants); err != nil {
		errs = append(errs, fmt.Errorf("receiver: source %q: %w", name, err))
	}
	e.count = metrics.source(cmp.Or(s.MetricLabel, name), e.callers.tenants())
	e.calls = e.count.calls(s.Inbox)
	e.count.failures = metrics.failures.add(e.count.label, s.FailureLimit)
	for _, secret := range s.Secrets() {
		e.count.expires(&secret)
	}
	if e.maxBody == 0 {
		e.maxBody = asked.MaxBody
	}
	if p, ok := s.Provider.(interface{ Unproved() bool }); ok && p.Unproved() {
		e.unproved = true
		metrics.unproved.WithLabelValues(e.count.label).Add(1)
	}
	e.proves = true
	if p, ok := s.Provider.(interface{ IsMessage() bool }); ok && p.IsMessage() {
		e.proves = false
	}
	if room := limits.room(e.maxBody); e.maxBody <= 0 || !s.Unserved && peak(e.maxBody) > room {
		errs = append(errs, fmt.Errorf("receiver: source %q: MaxBody %d must be positive and small enough that a body of that size, which holds %d while it grows, fits into what BodyBytes (%d) leaves beside the reserves (%d)",
			name, e.maxBody, peak(e.maxBody), limits.bytes, room))
	}
	if e.longestWait == 0 {
		e.longestWait = DefaultLongestWait
	}
	if s.NewKeys < 0 || s.NewKeys > 0 && !e.operation {
		errs = append(errs, fmt.Errorf("receiver: source %q: NewKeys must not be negative, and is for operations", name))
	}
	if err := checkRepeats(s); err != nil {
		errs = append(errs, fmt.Errorf("receiver: source %q: %w", name, err))
	}
	if len(e.methods) == 0 {
		errs = append(errs, fmt.Errorf("receiver: source %q: the provider names no method", name))
	}
	if e.sessions, err = newSessionProvider(s); err != nil {
		errs = append(errs, fmt.Errorf("receiver: source %q: %w", name, err))
	}
	if err := s.Deliveries.check(); err != nil {
		errs = append(errs, fmt.Errorf("receiver: source %q: Deliveries: %w", name, err))
	}
	if s.ExternalURL != "" {
		if u, err := url.Parse(s.ExternalURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("receiver: source %q: ExternalURL is not an http or https address", name))
		}
	}
	return e, errors.Join(errs...)
}

// webhookTenant returns the tenant whose quota of deliveries bounds the endpoint. Operations have quotas of new keys instead.
func (e *endpoint) webhookTenant() string {
	if e.operation {
		return ""
	}
	return e.Inbox.Tenant
}

// limitsKeys reports whether a quota bounds the new keys of the endpoint.
func (e *endpoint) limitsKeys() bool {
	if e == nil || !e.operation {
		return false
	}
	limited := len(e.callers.quotas) > 0
	for _, known := range e.callers.named {
		limited = limited || len(known.quotas) > 0
	}
	return limited
}

func set(values []string, fold func(string) string) map[string]bool {
	m := make(map[string]bool, len(values))
	for _, v := range values {
		m[fold(v)] = true
	}
	return m
}
