package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
)

// Database is one of the databases of a process with several.
type Database struct {
	// Name is the name in the configuration.
	Name string

	// Service returns the service for this database. It returns nil while the database is away.
	Service func() *Service
}

// front chooses the databases that an operation concerns.
type front struct {
	databases []Database
	home      func(source string) (home string, left []string)
}

// NewFront makes a Service for several databases. The first one is the default. For each operation the Service uses
//   - the database that the caller names;
//   - the database in which the source of the request lives, and for a list also those that it has left, which keep what they recorded. home
//     returns their names, or "" for an unknown source;
//   - the database that has the requested object;
//   - all databases, for a list or a decision about a target;
//   - the default database otherwise.
//
// It refuses a decision about many objects that names neither a database nor a source.
func NewFront(databases []Database, home func(source string) (home string, left []string)) *Service {
	return &Service{front: &front{databases: databases, home: home}}
}

// checkDatabase refuses the name of another database than the only one.
func (s *Service) checkDatabase(name string) error {
	own := config.DefaultDatabase
	if s.cfg.Settings != nil {
		own = s.cfg.Settings.Database.Name
	}
	if name == "" || name == own {
		return nil
	}
	return unknownDatabase(name, own)
}

func unknownDatabase(name, known string) error {
	return &Problem{Code: CodeUnknownName, Detail: fmt.Sprintf("no database is named %q; those of the configuration are %s", name, known)}
}

// onEach lists the decisions that apply to every database.
var onEach = map[string]bool{
	"pause_target": true, "resume_target": true, "reload_configuration": true, "add_suppression": true, "import_suppressions": true, "remove_suppression": true,
}

// onDefault lists the operations that use the default database unless the caller names another one.
var onDefault = map[string]bool{
	"create_source": true, "create_token": true, "create_login_link": true, "test_notifications": true, "run_prune": true, "test_target": true,
}

// run carries an operation out.
func (f *front) run(ctx context.Context, o Definition, access Access, request any) (any, error) {
	d := o.Describe()
	in, err := f.chosen(access, request, d)
	switch {
	case err != nil:
		return nil, err
	case len(in) == 1:
		return f.carry(ctx, in[0], o, access, request)
	case answersList(d.Response) && d.ReadsLists():
		return f.merge(ctx, o, access, request, in)
	case onEach[d.ID]:
		return f.each(ctx, o, access, request, in)
	case d.ReadsLists():
		_, answer, err := f.find(ctx, o, access, request, in, false)
		return answer, err
	}
	at, err := f.locate(ctx, d, access, request, in)
	if err != nil {
		return nil, err
	}
	return f.carry(ctx, at, o, access, request)
}

// chosen returns the databases that an operation may use.
func (f *front) chosen(access Access, request any, d Description) ([]Database, error) {
	if access.Database != "" {
		for _, one := range f.databases {
			if one.Name == access.Database {
				return []Database{one}, nil
			}
		}
		return nil, unknownDatabase(access.Database, f.names())
	}
	if home, left := f.home(sourceOf(request, d)); home != "" {
		var in []Database
		for _, one := range f.databases {
			if one.Name == home || answersList(d.Response) && slices.Contains(left, one.Name) {
				in = append(in, one)
			}
		}
		if len(in) > 0 {
			return in, nil
		}
	}
	switch {
	case onDefault[d.ID], d.ReadsLists() && !answersList(d.Response) && !namesObject(d):
		return f.databases[:1], nil
	case d.ReadsLists(), onEach[d.ID], namesObject(d):
		return f.databases, nil
	}
	return nil, f.which()
}

func (f *front) names() string {
	names := make([]string, len(f.databases))
	for i, one := range f.databases {
		names[i] = one.Name
	}
	return strings.Join(names, ", ")
}

// namesObject reports whether the path of an operation names one object.
func namesObject(d Description) bool { return strings.Contains(d.Path, "{") }

// sourceOf returns the source that a request names. It is empty if the request names none.
func sourceOf(request any, d Description) string {
	var f filterNames
	f.read(reflect.ValueOf(request))
	if f.source == "" && strings.HasPrefix(d.Path, "/sources/{name}") {
		f.source = reflect.ValueOf(request).FieldByName("Name").String()
	}
	return f.source
}

// carry carries an operation out on one database.
func (f *front) carry(ctx context.Context, in Database, o Definition, access Access, request any) (any, error) {
	s := in.Service()
	if s == nil {
		return nil, in.away()
	}
	return o.carry(ctx, s, access, request)
}

// away returns that the database does not answer.
func (d Database) away() error {
	return &Problem{Code: CodeUnavailable, Detail: "the database " + d.Name + " does not answer"}
}

// each carries an operation out on every database and returns the first answer. If some databases fail, the caller repeats the request:
// the operations of onEach change nothing where they succeeded before.
func (f *front) each(ctx context.Context, o Definition, access Access, request any, in []Database) (answer any, err error) {
	var failed []error
	for _, one := range in {
		made, err := f.carry(ctx, one, o, access, request)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("database %s: %w", one.Name, err))
		case answer == nil:
			answer = made
		}
	}
	if len(failed) == len(in) || len(failed) == 0 {
		return answer, errors.Join(failed...)
	}
	code := ProblemOf(failed[0]).Code
	return nil, &Problem{Code: code, Detail: fmt.Sprintf("it was done in %d of %d databases; repeat it for the others: %v", len(in)-len(failed), len(in), errors.Join(failed...))}
}

// find reads an object from the database that has it. With every, find fails if a database does not answer, because that database may
// have another object with the same name.
func (f *front) find(ctx context.Context, o Definition, access Access, request any, in []Database, every bool) (at Database, answer any, err error) {
	var missing, away error
	found := 0
	for _, one := range in {
		made, err := f.carry(ctx, one, o, access, request)
		switch code := ProblemOf(err).Code; {
		case err == nil:
			at, answer = one, made
			found++
		case code == CodeNotFound || code == CodeUnknownName:
			missing = err
		case code == CodeUnavailable || code == CodeTimeout:
			away = err
		default:
			return at, nil, err
		}
	}
	switch {
	case found > 1:
		return at, nil, &Problem{Code: CodeAmbiguous, Detail: "several databases have what the request names: name one of " + f.names()}
	case found == 1 && (away == nil || !every):
		return at, answer, nil
	case away != nil:
		return at, nil, away
	}
	return at, nil, missing
}

// locate returns the database that has the object which a decision names.
func (f *front) locate(ctx context.Context, d Description, access Access, request any, in []Database) (Database, error) {
	object, _, _ := strings.Cut(d.Path, "}")
	for _, o := range Operations() {
		reads := o.Describe()
		if reads.Method != http.MethodGet || reads.Path != object+"}" || answersList(reads.Response) {
			continue
		}
		asked := reflect.New(reads.Request).Elem()
		copyFields(asked, reflect.ValueOf(request))
		reader := Access{Actor: access.Actor, Credential: access.Credential, Scopes: Scopes{ReadMetadata}, Tenant: access.Tenant}
		at, _, err := f.find(ctx, o, reader, asked.Interface(), in, !namesUUID(request))
		return at, err
	}
	return Database{}, f.which()
}

// which returns the error for a decision that does not say which database it concerns.
func (f *front) which() error {
	return invalid("which database? name one of %s (--database, or the header Oncegate-Database)", f.names())
}

// copyFields copies the fields that both requests have.
func copyFields(to, from reflect.Value) {
	for i := range to.NumField() {
		field := to.Type().Field(i)
		if had := from.FieldByName(field.Name); had.IsValid() && had.Type() == field.Type {
			to.Field(i).Set(had)
		}
	}
}

// namesUUID reports whether a request names its object by a UUID, which exists in only one database.
func namesUUID(request any) bool {
	v := reflect.ValueOf(request)
	if id := v.FieldByName("ID"); id.IsValid() && id.Type() == reflect.TypeFor[inbox.ID]() {
		return true
	}
	ref := v.FieldByName("Ref")
	if !ref.IsValid() || ref.Kind() != reflect.String {
		return false
	}
	_, err := inbox.ParseID(ref.String())
	return err == nil
}

// begin records a keyed request in the database that carries it out, so that a repeated request finds the record.
func (f *front) begin(ctx context.Context, k KeyedRequest) (*RequestInProgress, error) {
	in, err := f.chosen(k.Access, k.Request, k.Operation)
	if err != nil {
		return nil, err
	}
	at := in[0]
	if len(in) > 1 && !onEach[k.Operation.ID] {
		if at, err = f.locate(ctx, k.Operation, k.Access, k.Request, in); err != nil {
			return nil, err
		}
	}
	s := at.Service()
	if s == nil {
		return nil, at.away()
	}
	return s.BeginRequest(ctx, k)
}

// freshness returns the freshness of the database whose lists are the oldest.
func (f *front) freshness() (oldest session.Freshness) {
	for _, one := range f.databases {
		if s := one.Service(); s != nil {
			if fresh := s.Freshness(); fresh.Standby && (!oldest.Standby || fresh.Err != nil || fresh.AsOf.Before(oldest.AsOf)) {
				oldest = fresh
			}
		}
	}
	return oldest
}

// SourceNames returns the present and former names of the configured sources.
func (s *Service) SourceNames() (names []string) {
	if s.cfg.Settings == nil {
		return nil
	}
	for _, source := range s.cfg.Settings.Sources {
		names = append(append(names, source.Name), source.Previous.Names...)
	}
	return names
}
