package registry

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ErrRecipe is returned by [Register] for a route whose key is made in another way than
// before, while it has keys that were made in the old one. Nothing was changed.
var ErrRecipe = errors.New("the key of a route has changed")

// KeyRecipe says how the keys of a route are made.
type KeyRecipe struct {
	// Version is raised to allow that effects which happened under the old keys happen
	// again under the new ones.
	Version int

	// Words are the recipe for people, such as "body.order". Recipes with different words
	// are different recipes.
	Words string
}

// Digest identifies the recipe. Stored: never change.
func (r KeyRecipe) Digest() []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", r.Version, r.Words))
	return sum[:]
}

// String returns the recipe in the form that errors use.
func (r KeyRecipe) String() string { return fmt.Sprintf("%s, version %d", r.Words, r.Version) }

// In the order of the index, as in [readKeyHolders].
const readRecipes = `
SELECT k.route_id, k.version, k.words,
    (SELECT count(*) FROM (SELECT FROM effect_key o WHERE o.route_id = k.route_id ORDER BY o.key_hash LIMIT $2) c)
FROM key_recipe k
WHERE k.route_id = ANY ($1::int[])
ORDER BY k.used_at DESC, k.id DESC`

// knownRecipe is a recipe that a route had, with how many keys the route has.
type knownRecipe struct {
	route int32
	KeyRecipe
	keys int
}

// checkRecipes refuses another recipe of the same version while keys of the old one
// exist: a call whose effect happened under an old key would make a new one, and the
// effect would happen again. A recipe that the route had before is accepted, because it
// belongs to a process with an earlier configuration.
func checkRecipes(ctx context.Context, db row.Batcher, decided *decidedNames, sources []Source) error {
	var ids []int32
	for _, routes := range decided.routes {
		for _, d := range routes {
			ids = append(ids, d.row)
		}
	}
	known := map[int32][]knownRecipe{}
	var b pgx.Batch
	b.Queue(readRecipes, ids, row.MaxCounted+1).Query(func(rows pgx.Rows) error {
		var k knownRecipe
		_, err := pgx.ForEachRow(rows, []any{&k.route, &k.Version, &k.Words, &k.keys}, func() error {
			known[k.route] = append(known[k.route], k)
			return nil
		})
		return err
	})
	if err := db.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("reading how keys are made: %w", err)
	}
	var errs []error
	for _, s := range sources {
		for _, r := range s.Routes {
			had := known[decided.routes[s.Name][r.Name].row]
			if r.Key == nil || slices.ContainsFunc(had, func(k knownRecipe) bool { return k.KeyRecipe == *r.Key }) {
				continue
			}
			for _, k := range had {
				if k.keys > 0 && k.Version == r.Key.Version {
					errs = append(errs, fmt.Errorf("%w: that of route %s/%s is %s, and was %s, under which it holds %s: what happened under an old key would happen again under the new one. "+
						"Raise the key's version if that is wanted, or write the old one",
						ErrRecipe, s.Name, r.Name, r.Key, k.KeyRecipe, countText(k.keys, "key", "keys")))
					break
				}
			}
		}
	}
	return errors.Join(errs...)
}

// recipeRow is the database row of a route's recipe.
type recipeRow struct {
	route int32
	*KeyRecipe
}

var recipeColumns = row.ColumnsFrom(1,
	row.Int("route_id", func(k *recipeRow) int32 { return k.route }),
	row.Bytes("digest", func(k *recipeRow) []byte { return k.Digest() }),
	row.Int("version", func(k *recipeRow) int32 { return int32(k.Version) }),
	row.Text("words", func(k *recipeRow) string { return k.Words }),
)

var upsertRecipes = `
INSERT INTO key_recipe (route_id, digest, version, words)
SELECT a.route_id, a.digest, a.version, a.words FROM unnest(` + recipeColumns.Arrays() + `) AS a (` + recipeColumns.Names() + `)
ON CONFLICT ON CONSTRAINT key_recipe_key DO UPDATE SET used_at = now()`

func (r *registrar) writeRecipes(ctx context.Context, recipes []recipeRow) error {
	if len(recipes) == 0 {
		return nil
	}
	_, err := r.tx.Exec(ctx, upsertRecipes, recipeColumns.Args(recipes)...)
	return err
}
