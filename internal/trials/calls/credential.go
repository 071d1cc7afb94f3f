package calls

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
)

// credential is a caller's. Its secrets are rotated while it calls.
type credential struct {
	name string

	// spent: its quota of new keys is used up, so that a refusal for it is final.
	spent bool

	// revoked: no secret of it is accepted.
	revoked bool

	mu         sync.Mutex
	generation int
}

// value is the secret of a generation.
func (c *credential) value(generation int) string {
	return fmt.Sprintf("%s-secret-of-generation-%04d-0123456789abcdef", c.name, generation)
}

// secret is one of the two that a node may accept now, whichever of them a program happens to have.
func (c *credential) secret() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value(c.generation + rand.IntN(2)) //nolint:gosec // which of two does not matter
}

// rotate makes the newer secret the older one, and a new one.
func (c *credential) rotate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
}

// environ are the variables that the configuration takes the secrets from.
func (c *credential) environ() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := strings.ToUpper(c.name)
	return []string{name + "_NEW=" + c.value(c.generation+1), name + "_OLD=" + c.value(c.generation)}
}
