package providers

import (
	"regexp"
	"strconv"
)

// operationName is what an operation and a credential may be called. Neither
// may contain the colon that separates them in an event id.
var operationName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// operation reads which operation a caller wants done once. Two credentials
// never share an id, since the credential's name leads it and holds no colon.
func (p *Provider) operation(req *Request, credential string) (Item, *Refusal) {
	spec := &p.spec.Verify.Operation
	name, present, err := header(req, []string{spec.Name})
	if err != nil {
		return Item{}, unidentified(ProblemInvalidOperation, err.Detail)
	}
	if present == "" {
		return Item{}, unidentified(ProblemMissingOperation, "header "+spec.Name+" is missing")
	}
	if !operationName.MatchString(name) {
		return Item{}, unidentified(ProblemInvalidOperation, "header "+spec.Name+" is not a name of a-z, 0-9, ., _ and -, at most 64")
	}
	scope := credential + ":" + name + ":"
	var key string
	if p.recipe != nil {
		key, err = p.recipe.key(req, maxID-len(scope))
	} else {
		key, err = p.givenKey(req)
	}
	if err != nil {
		return Item{}, err
	}
	id := scope + key
	if len(id) > maxID {
		return Item{}, unidentified(ProblemInvalidKey, "credential, operation and key are longer than "+strconv.Itoa(maxID)+" bytes together")
	}
	return Item{EventID: id, Type: name, Length: len(req.Body)}, nil
}

// givenKey is the key that the caller chose.
func (p *Provider) givenKey(req *Request) (string, *Refusal) {
	name := p.spec.Verify.Operation.Key
	key, present, err := header(req, []string{name})
	if err != nil {
		return "", unidentified(ProblemInvalidKey, err.Detail)
	}
	if present == "" {
		return "", unidentified(ProblemMissingKey, "header "+name+" is missing")
	}
	for i := range len(key) {
		if key[i] <= 0x20 || key[i] >= 0x7f {
			return "", unidentified(ProblemInvalidKey, "header "+name+" has characters other than visible ASCII")
		}
	}
	return key, nil
}
