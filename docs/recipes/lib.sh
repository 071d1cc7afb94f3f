# Common to the recipes: a server for as long as the script runs. To be sourced by bash in the directory of a recipe.
set -euo pipefail
: "${DATABASE_URL:?name an empty PostgreSQL database, such as postgres://localhost/recipe}"
export ONCEGATE_PUBLIC=${ONCEGATE_PUBLIC:-127.0.0.1:8080} ONCEGATE_ADMIN=${ONCEGATE_ADMIN:-127.0.0.1:8081} PGOPTIONS="-c client_min_messages=warning"
psql --version >/dev/null || { echo "a recipe looks into the database with psql: install PostgreSQL's client" >&2; exit 1; }
command -v oncegate >/dev/null || PATH=$PATH:$(cd ../../../bin && pwd)

# serve: makes the tables, and runs the server of ./oncegate.yml until the script ends.
serve() {
  oncegate migrate up >/dev/null
  oncegate serve >serve.log 2>&1 &
  trap "kill $! 2>/dev/null; wait $! || true" EXIT
  until oncegate ready >/dev/null 2>&1; do
    kill -0 $! || { tail -n 5 serve.log >&2; exit 1; }
    sleep 0.1
  done
}

# deliver SOURCE ARGUMENT...: one delivery as the sender signs it.
deliver() { oncegate send "$1" --source "$1" --url "http://$ONCEGATE_PUBLIC/in/$1" "${@:2}" --output json | sed -n 's/^ *"outcome": "\(.*\)",*$/\1/p'; }

# settle: waits until every effect has ended. One statement looks at all states, because an effect passes from one to another.
settle() {
  local left
  while left=$(sql "SELECT count(*) FROM oncegate.effect WHERE state IN ('pending', 'claimed', 'retry', 'held')") && [ "$left" != 0 ]; do sleep 0.1; done
  [ "$left" = 0 ]
}

# sql TEXT: the rows of a statement.
sql() { psql --dbname "$DATABASE_URL" --quiet --no-align --tuples-only --set ON_ERROR_STOP=1 --command "$1"; }
