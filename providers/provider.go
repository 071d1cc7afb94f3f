package providers

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/jsonspan"
	"github.com/oncegate/oncegate/internal/yamltree"
	schemes "github.com/oncegate/oncegate/providers/scheme"
)

// These are the families that this package implements.
const (
	familyHMAC      = "hmac"
	familyStatic    = "static"
	familyOperation = "operation"
	familySignature = "signature"
	familyBroker    = "broker"
	familyNone      = "none"
)

// signs reports whether the proof is a signature over parts of the request.
func (v *VerifySpec) signs() bool { return v.Family == familyHMAC || v.Family == familySignature }

// Provider is a checked [Spec] that can verify requests. It is safe for concurrent use.
type Provider struct {
	name       string
	spec       *Spec
	schemes    []scheme
	extraction *extraction
	handshakes []handshake
	volatile   [][]string
	modes      []mode
	reserved   map[string]bool // names of secrets that only handshakes use
	answers    bool            // a handshake is answered with a signature
	idUnsigned bool
	// digestUnsigned is the counterpart of idUnsigned for ids that are digests.
	digestUnsigned     bool
	recipe             *recipe            // of an operation's key; nil if the caller chooses the key
	operations         map[string]*recipe // the declared operations; nil allows any
	locates            bool               // verification reads single values
	where              string             // the first signature header, for error details
	literals           [][]byte           // of the signed parts
	partsAlwaysPresent bool               // no signed part can be missing
	fixedTime          bool               // the signed time must have all its digits
	wholeBody          bool               // the body must be a JSON object or array from its first to its last byte
	located            *jsonspan.PathSet  // the JSON paths that verification reads
	scheme             schemes.Scheme     // nil if the family needs no scheme

	base *Provider       // the provider that it extends, if any
	own  map[string]bool // the paths that its own document contains

	// Bind sets these fields from a source.
	bound    bool
	settings schemes.Settings
	fetcher  Fetcher
	asker    Asker
}

// Parse parses a spec that extends no other. The error names every problem with its line.
func Parse(name string, yaml []byte) (*Provider, error) {
	return ParseOver(name, yaml, nil)
}

// ParseOver parses a spec that may extend one of the given providers.
func ParseOver(name string, yaml []byte, bases map[string]*Provider) (*Provider, error) {
	report := &yamltree.Report{File: "provider " + name}
	root := yamltree.Parse(yaml, report)
	if root == nil {
		return nil, report.Err()
	}
	return ParseNode(name, root, Map(bases)), report.Err()
}

// Catalog finds providers by name. It may parse a provider when it is first asked for.
type Catalog interface {
	// Provider returns a provider, or nil if the catalog does not have it.
	Provider(name string) *Provider
	// Names returns the names of all providers.
	Names() []string
}

// Map is a [Catalog] of parsed providers by name.
type Map map[string]*Provider

// Provider returns the provider with a name, or nil.
func (m Map) Provider(name string) *Provider { return m[name] }

// Names returns the names of the providers, sorted.
func (m Map) Names() []string { return slices.Sorted(maps.Keys(m)) }

// ParseNode parses a spec that is part of a larger document, such as a custom provider in a
// configuration. It reports problems in that document's report and then returns nil.
func ParseNode(name string, node *yamltree.Node, bases Catalog) *Provider {
	if node.IsEmpty() {
		node.Fail("is empty; write what the provider extends, or docs, verify and identity")
		return nil
	}
	d := &specReader{name: name, root: node, nodes: map[string]*yamltree.Node{}}
	spec := d.base(bases)
	d.read(spec)
	if d.unknownBase || !node.IsMapping() {
		return nil // nearly everything would be reported as missing
	}
	d.defaults(spec)
	d.check(spec)
	if !node.Sound() {
		return nil
	}
	p := compile(name, spec)
	p.base = d.extended
	p.own = make(map[string]bool, len(d.nodes))
	for path := range d.nodes {
		p.own[path] = true
	}
	return p
}

// base returns a copy of the spec that the document extends, or an empty one. Copying the struct is
// enough, because decoding replaces lists and maps and never changes them.
func (d *specReader) base(bases Catalog) *Spec {
	extends := d.root.Member("extends")
	if !extends.IsScalar() {
		d.unknownBase = extends != nil
		return &Spec{}
	}
	base := bases.Provider(extends.Value())
	if base == nil {
		d.unknownBase = true
		extends.Fail("unknown provider %q; %s`oncegate providers list` shows the known ones", extends.Value(), DidYouMean(bases, extends.Value()))
		return &Spec{}
	}
	d.extended = base
	spec := *base.spec
	spec.Title = d.name                  // two senders must not share a title
	spec.Checked, spec.ProvedBy = "", "" // these describe the base
	spec.Example.Source, spec.Example.Own = "", nil
	if d.root.Member("type") != nil {
		spec.Types = TypesSpec{} // the base's list is of what its own rule reads
	}
	for _, key := range []string{"mode", "candidates", "hash"} {
		if d.root.Member("identity").Member(key) != nil {
			spec.Identity = IdentitySpec{}   // a different rule replaces the base's identity completely
			spec.Reconcile = ReconcileSpec{} // the base's list has the ids of the replaced rule
		}
	}
	return &spec
}

func compile(name string, spec *Spec) *Provider {
	p := &Provider{name: name, spec: spec}
	for _, s := range spec.Verify.Signature.Schemes {
		newHash, size, _ := algorithm(s.Algorithm)
		p.schemes = append(p.schemes, scheme{SchemeSpec: s, new: newHash, size: size, macs: &macs{}})
	}
	p.scheme = schemes.Table()[spec.Verify.Family]
	if names := spec.Verify.Signature.Headers; len(names) > 0 {
		p.where = "header " + names[0]
	}
	p.located = locatedPaths(&spec.Verify)
	p.locates = spec.Verify.locates()
	p.literals = make([][]byte, len(spec.Verify.Signed))
	for i := range spec.Verify.Signed {
		p.literals[i] = []byte(spec.Verify.Signed[i].Literal)
	}
	p.partsAlwaysPresent = alwaysPresent(spec.Verify.Signed)
	p.wholeBody, p.fixedTime = touchesBody(spec.Verify.Signed)
	p.wholeBody = p.wholeBody && spec.Body.Format == "json" && !spec.Body.Form && !spec.Body.Multipart
	p.extraction = newExtraction(spec)
	p.handshakes = compileHandshakes(spec.Handshakes)
	for _, path := range spec.Volatile {
		p.volatile = append(p.volatile, strings.Split(path, "."))
	}
	p.reserved = reservedSecrets(spec)
	p.answers = slices.ContainsFunc(spec.Handshakes, func(h HandshakeSpec) bool { return h.Respond.signs() })
	p.idUnsigned, p.digestUnsigned = !spec.transmitted() && !spec.idSigned(), !spec.transmitted() && !spec.digestSigned()
	p.modes = compileModes(name, spec)
	for i := range p.modes {
		p.idUnsigned = p.idUnsigned || p.modes[i].as.idUnsigned
	}
	return p
}

// alwaysPresent reports whether every request contains all signed parts.
func alwaysPresent(parts []Part) bool {
	for i := range parts {
		switch p := &parts[i]; {
		case p.Literal != "":
		case p.Word == "body", p.Word == "timestamp", p.Word == "method", p.Word == "url":
		default:
			return false
		}
	}
	return true
}

// touchesBody reports whether the body and a part that the sender of a request can choose stand side
// by side in the signed text, with nothing constant between them. Bytes could then move between the
// two while the signature stays valid. timed reports whether that part is the time, before the body.
func touchesBody(parts []Part) (touches, timed bool) {
	chosen := func(i int) bool {
		return i >= 0 && i < len(parts) && (parts[i].Word == "timestamp" || len(parts[i].Header) > 0 || parts[i].Query != "")
	}
	for i := range parts {
		if parts[i].Word == "body" {
			touches = touches || chosen(i-1) || chosen(i+1)
			timed = timed || i > 0 && parts[i-1].Word == "timestamp"
		}
	}
	return touches, timed
}

// idSigned reports whether the signature covers every field that can contain an id. It is derived
// from the spec and not declared in it, so it cannot be wrong.
func (s *Spec) idSigned() bool {
	if s.Identity.Mode == "level" {
		return true // no sender can choose an id, because none is read from the request
	}
	if !s.Verify.signs() && schemes.Table()[s.Verify.Family] == nil {
		// A credential covers nothing, and anyone with a request also has the credential.
		// Operations bind their id to the credential, and a broker delivers a message as it got it.
		return s.Verify.Family == familyOperation || s.Verify.Family == familyBroker
	}
	if s.Identity.Mode == "digest" {
		return s.digestSigned()
	}
	for _, f := range slices.Concat(s.Identity.Candidates, s.Identity.Hash) {
		if !s.covered(&f) {
			return false
		}
	}
	return true
}

// transmitted reports whether each event has a signed transmission. One captured delivery is then one event,
// even if the signature does not cover the event's id.
func (s *Spec) transmitted() bool { return len(s.Identity.Transmission) > 0 }

// digestSigned reports whether the signature covers everything that a digest includes.
func (s *Spec) digestSigned() bool {
	payload := Field{JSON: "$"}
	if s.Body.Form && s.Body.FormJSON == "" {
		payload = Field{Form: "$"}
	}
	return s.covered(&payload) && !slices.ContainsFunc(s.scope(), func(f Field) bool { return !s.covered(&f) })
}

func (s *Spec) covered(f *Field) bool {
	if s.Verify.Family == familyBroker {
		return true // the broker delivers all of a message as it got it
	}
	if schemes.Table()[s.Verify.Family] != nil && f.Literal == "" && len(f.Join) == 0 {
		if s.Verify.Authenticates == "body" && f.Header == "" && f.Query == "" {
			return true
		}
		return s.schemeCovers(f)
	}
	signs := func(match func(*Part) bool) bool {
		for i := range s.Verify.Signed {
			if match(&s.Verify.Signed[i]) {
				return true
			}
		}
		return false
	}
	same := func(h string) bool { return http.CanonicalHeaderKey(h) == http.CanonicalHeaderKey(f.Header) }
	switch {
	case f.Header != "":
		return signs(func(p *Part) bool {
			return slices.ContainsFunc(p.Header, same) || p.Word == "timestamp" && slices.ContainsFunc(s.Verify.Timestamp.Header, same)
		})
	case f.JSON != "" || f.Parent != "" || f.Envelope != "" || f.Form != "":
		return signs(func(p *Part) bool {
			return p.Word == "body" || p.Word == "body-base64" || p.Word == "body-sha256" || p.Word == "body-sha256-hex" || p.Word == "form-sorted" ||
				(p.Word == "document" || p.Form != "" && p.Form == s.Body.FormJSON) && f.Form == "" || f.JSON != "" && p.JSON == f.JSON || f.Form != "" && p.Form == f.Form
		}) &&
			s.Verify.Authenticates != "origin"
	case f.Query != "":
		return signs(func(p *Part) bool { return p.Word == "url" || p.Word == "query" || p.Query == f.Query })
	}
	for i := range f.Join {
		if !s.covered(&f.Join[i]) {
			return false
		}
	}
	return true
}

// Name returns the provider's name in the catalogue or the configuration.
func (p *Provider) Name() string { return p.name }

// Spec returns the provider's spec with all defaults. Do not change it.
func (p *Provider) Spec() *Spec { return p.spec }

// IsOperation reports whether the provider is for callers that name their operations. Oncegate
// answers and compares their requests more strictly.
func (p *Provider) IsOperation() bool { return p.spec.Verify.Family == familyOperation }

// IsMessage reports whether the provider is for messages of a broker. Only a source that consumes from a broker can have it,
// because the connection to the broker proves the sender, and nothing in the request does.
func (p *Provider) IsMessage() bool { return p.spec.Verify.Family == familyBroker }

// IDUnsigned reports whether event ids may come from parts of the request that the signature does
// not cover, without a signed transmission that has to be new as well.
func (p *Provider) IDUnsigned() bool { return p.idUnsigned }

// TypeUnsigned returns the headers and query parameters from which the type of an event may be read
// and which the signature does not cover. Anyone who has one delivery can present it with another
// type. It is empty if nothing is signed at all, because the whole event can then be changed.
func (p *Provider) TypeUnsigned() []string {
	if !p.spec.Verify.signs() && p.scheme == nil || p.spec.Verify.Authenticates == "origin" {
		return nil
	}
	var out []string
	for i := range p.spec.Type {
		if name := p.spec.uncoveredHeader(&p.spec.Type[i]); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// Limits contains what the receiver checks before it reads or verifies a request.
type Limits struct {
	// Methods lists the HTTP methods of deliveries and handshakes. Deliveries lists the methods of
	// deliveries only.
	Methods, Deliveries []string
	// MaxBody is in bytes.
	MaxBody int64
	// ContentTypes lists media types without parameters. If it is empty, any type is accepted.
	ContentTypes []string
	// Encodings lists the accepted Content-Encodings. A body without an encoding is always
	// accepted.
	Encodings []string
}

// Limits returns the provider's limits.
func (p *Provider) Limits() Limits {
	methods := slices.Clone(p.spec.Request.Methods)
	for i := range p.spec.Handshakes {
		methods = append(methods, p.spec.Handshakes[i].Method)
	}
	methods = append(methods, p.handshakeMethods()...)
	slices.Sort(methods)
	return Limits{
		Methods:      slices.Compact(methods),
		Deliveries:   slices.Clone(p.spec.Request.Methods),
		MaxBody:      int64(p.spec.Request.MaxBody),
		ContentTypes: slices.Clone(p.spec.Request.ContentTypes),
		Encodings:    slices.Clone(p.spec.Request.Encodings),
	}
}

// Verify authenticates a request and reads its events. The error is a *[Refusal] if the request is
// not authentic. Any other error is a fault of Oncegate or a key store, after which the sender
// should retry. Verify reads events only from verified data.
func (p *Provider) Verify(req *Request, secrets []Secret) (*Delivery, error) {
	return p.mode(req).verify(req, secrets)
}

func (p *Provider) verify(req *Request, secrets []Secret) (*Delivery, error) {
	proof, err := p.authenticate(req, secrets)
	if err != nil {
		return nil, err
	}
	if p.wholeBody && !wholeDocument(req.Body) {
		return nil, refuse(ReasonMalformed, "the body is no JSON object or array, and nothing separates it from the other signed parts")
	}
	if p.answers && !isDocument(req.Body) {
		return nil, refuse(ReasonMismatch, "the signed content is no JSON object or array, and could be signed by a handshake")
	}
	// Nearly every delivery contains one event, so its item is allocated together with the
	// delivery.
	made := &struct {
		d   Delivery
		one [1]Item
	}{d: Delivery{IDUnsigned: p.idUnsigned, Secret: proof.secret, Credential: proof.credential, SignedAt: proof.signedAt}}
	d := &made.d
	if p.IsOperation() {
		item, given, err := p.operation(req, d.Credential)
		if err != nil {
			return nil, err
		}
		d.Items, d.GivenKey = []Item{item}, given
		return d, nil
	}
	d.Items = p.extraction.items(req, proof.document, proof.values, made.one[:0])
	if len(p.extraction.transmission) > 0 && len(d.Items) == 1 {
		p.extraction.addTransmission(&d.Items[0], req)
	}
	for i := range d.Items {
		d.IDUnsigned = d.IDUnsigned || p.digestUnsigned && p.extraction.digests(d.Items[i].EventID)
		if proof.covered > 0 && i >= proof.covered {
			d.Items[i].EventID, d.Items[i].Unusable = "", "event: the signature does not cover it"
		}
	}
	return d, nil
}

// wholeDocument reports whether the body is one complete JSON object or array.
func wholeDocument(body []byte) bool { return isDocument(body) && json.Valid(body) }

// authenticate verifies a request with the provider's family.
func (p *Provider) authenticate(req *Request, secrets []Secret) (proof, error) {
	var out proof
	var refusal *Refusal
	switch {
	case p.spec.Verify.signs():
		out.secret, out.signedAt, refusal = p.verifySignature(req, secrets)
	case p.scheme != nil:
		return p.verifyScheme(req, secrets)
	case p.unchecked():
		_, err := p.ready()
		return out, err
	default:
		out.secret, out.credential, refusal = p.verifyCredential(req, secrets)
	}
	if refusal != nil {
		return proof{}, refusal
	}
	return out, nil
}
