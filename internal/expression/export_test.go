package expression

// NewCompile returns [Compile] with a new environment, in which nothing has been compiled yet.
func NewCompile() (func(source string, want Want) (*Program, error), error) {
	c, err := newCompiler()
	if err != nil {
		return nil, err
	}
	return c.compile, nil
}
