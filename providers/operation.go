package providers

import (
	"regexp"
	"strconv"
)

// operationName matches the names of operations and credentials. A name must not contain the colon
// that separates them in an event id.
var operationName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// operation returns the operation that a caller wants to execute once. Two credentials never share
// an event id, because the id begins with the credential's name, which contains no colon.
func (p *Provider) operation(req *Request, credential string) (Item, *GivenKey, *Refusal) {
	name, err := p.operationOf(req)
	if err != nil {
		return Item{}, nil, err
	}
	recipe, err := p.recipeOf(name)
	if err != nil {
		return Item{}, nil, err
	}
	scope := credential + ":" + name + ":"
	var key string
	var given *GivenKey
	if recipe != nil {
		key, err = recipe.key(req, maxID-len(scope))
	} else if given, err = p.givenKey(req); err == nil {
		key = given.Key
	}
	if err != nil {
		return Item{}, nil, err
	}
	id := scope + key
	if len(id) > maxID {
		return Item{}, nil, unidentified(ProblemInvalidKey, "credential, operation and key are longer than "+strconv.Itoa(maxID)+" bytes together")
	}
	return Item{EventID: id, Type: name, Length: len(req.Body)}, given, nil
}
