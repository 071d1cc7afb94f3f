package providers

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// WithOperations returns a copy of an operation provider that accepts only the named operations.
// Each has the recipe of its keys as for [Provider.WithRecipe]; an empty one means the provider's
// own recipe. The copy refuses a call of any other operation before it reads the key.
func (p *Provider) WithOperations(recipes map[string][]string) (*Provider, error) {
	out := *p
	out.operations = make(map[string]*recipe, len(recipes))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(recipes)) {
		if err := CheckOperationName(name); err != nil {
			errs = append(errs, err)
			continue
		}
		own := p
		if len(recipes[name]) > 0 {
			var err error
			if own, err = p.WithRecipe(recipes[name]); err != nil {
				errs = append(errs, fmt.Errorf("operation %s: %w", name, err))
				continue
			}
		}
		out.operations[name] = own.recipe
	}
	return &out, errors.Join(errs...)
}

// CheckOperationName returns an error for a text that cannot be the name of an operation.
func CheckOperationName(name string) error {
	if !operationName.MatchString(name) {
		return fmt.Errorf("%q is not a name of a-z, 0-9, ., _ and -, at most 64", name)
	}
	return nil
}

// recipeOf returns the recipe of an operation's keys. nil means that the caller chooses the key.
func (p *Provider) recipeOf(operation string) (*recipe, *Refusal) {
	if p.operations == nil {
		return p.recipe, nil
	}
	recipe, declared := p.operations[operation]
	if !declared {
		names := slices.Sorted(maps.Keys(p.operations))
		return nil, refuse(ReasonUnknownOperation, "operation "+operation+" is not declared; "+yamltree.DidYouMean(names, operation)+"no key was spent")
	}
	return recipe, nil
}
