package expression

import (
	"math"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// maxDepth limits how deep a value may nest.
const maxDepth = 64

// native converts a CEL value to a JSON value.
func native(value ref.Val, depth int) (any, error) {
	if depth > maxDepth {
		return nil, ErrType
	}
	switch v := value.(type) {
	case types.Null:
		return nil, nil //nolint:nilnil // null is a value
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
		return nil, ErrType
	case types.String:
		return string(v), nil
	case types.Bytes:
		return []byte(v), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.String(), nil
	case *types.Optional:
		if !v.HasValue() {
			return nil, nil //nolint:nilnil // null is a value
		}
		return native(v.GetValue(), depth+1)
	case traits.Mapper:
		return object(v, depth)
	case traits.Lister:
		return list(v, depth)
	}
	return nil, ErrType
}

func object(m traits.Mapper, depth int) (any, error) {
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, ErrType
		}
		value, err := native(m.Get(key), depth+1)
		if err != nil {
			return nil, err
		}
		out[string(name)] = value
	}
	return out, nil
}

func list(l traits.Lister, depth int) (any, error) {
	out := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		value, err := native(it.Next(), depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	return out, nil
}
