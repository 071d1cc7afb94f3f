package vectors

import "github.com/oncegate/oncegate/providers"

// bind gives the provider as a source with the vector's parameters has it.
func (v *Vector) bind(p *providers.Provider) (*providers.Provider, error) { return p, nil }

// connect adds what is known of the connection.
func (v *Vector) connect(*providers.Request) {}
