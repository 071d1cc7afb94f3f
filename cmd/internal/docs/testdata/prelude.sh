# What the commands of a page run under: the first that fails ends the page, and says where it stands.
set -eE -o pipefail
at=begin
trap 'echo "failed at $at: $BASH_COMMAND"; tail -n 5 serve.log dev.log 2>/dev/null' ERR
trap 'stop' EXIT
trap 'exit 1' INT
if [ -f oncegate.yml ]; then sed -i.bak "s|env:TARGET|$TARGET|" oncegate.yml; fi
served=

# start COMMAND...: runs a server until the page ends or stops it, and waits until it is ready.
start() {
  if [ -n "$served" ]; then
    echo "$at: a server runs already, and this one would outlive the page" >&2
    exit 1
  fi
  "$@" >>serve.log 2>&1 &
  served=$!
  until oncegate ready >/dev/null 2>&1; do
    kill -0 "$served"
    sleep 0.05
  done
}

stop() {
  if [ -n "$served" ]; then
    kill "$served" 2>/dev/null || true
    wait "$served" || true
    served=
  fi
}

# develop runs the development process and waits until it can be found.
develop() {
  ONCEGATE_PUBLIC=127.0.0.1:0 ONCEGATE_ADMIN=127.0.0.1:0 ./bin/oncegate dev >dev.log 2>&1 &
  served=$!
  until [ -f .oncegate/dev/state.json ] && grep -q '^Ctrl-C' dev.log; do
    kill -0 "$served"
    sleep 0.05
  done
  unset DATABASE_URL ONCEGATE_SCHEMA ONCEGATE_PUBLIC ONCEGATE_ADMIN
}

# exits N COMMAND...: the command ends with that exit code.
exits() {
  local want=$1 got=0
  shift
  "$@" || got=$?
  [ "$got" -eq "$want" ]
}

# id_of LIST...: the id of the first row of a list. It reads the list to its end, since a closed pipe ends the command.
id_of() { "$@" --output json | awk -F'"' '/^ *"id": "/ && !found { print $4; found = 1 }'; }

# eventually LIST... --output json: the list, as soon as it has a row.
eventually() {
  local rows
  for _ in $(seq 600); do
    rows=$("$@")
    if ! grep -q '^  "data": \[\],$' <<<"$rows"; then
      printf '%s\n' "$rows"
      return
    fi
    sleep 0.05
  done
  return 1
}

# rows N LIST...: waits until the list has that many rows.
rows() {
  local want=$1
  shift
  for _ in $(seq 600); do
    if [ "$("$@" --output json | grep -c '"id": ')" -ge "$want" ]; then return; fi
    sleep 0.05
  done
  return 1
}

send() { oncegate send "$1" --source "$2" --url "$ONCEGATE/in/$2" "${@:3}" >/dev/null; }

# pay N: that many payments whose outcome nobody knows.
pay() {
  for _ in $(seq "$1"); do send stripe stripe --type payment_intent.succeeded; done
  rows "$1" oncegate effects list --state indeterminate
}

# down N: billing is down, and that many invoices become dead letters. up: it works again.
down() {
  curl -fsS -X PUT "$TARGET/billing/503"
  for _ in $(seq "$1"); do send stripe stripe; done
  rows "$1" oncegate dead list
}
up() { curl -fsS -X PUT "$TARGET/billing/200"; }

# order KEY NUMBER: an event of a sequence.
order() {
  printf '{"type":"order.paid","order_id":"%s","seq":%s}' "$1" "$2" | send standard-webhooks orders --file -
}

# conflict: a known event id with another payload.
conflict() {
  send stripe stripe --event-id evt_conflict
  printf '{"id":"evt_conflict","object":"event","type":"invoice.paid","created":1760000000,"data":{"object":{"id":"in_other"}}}' |
    send stripe stripe --file -
}

# strand: an effect waits for a route that is no longer configured.
strand() {
  send stripe stripe --type charge.succeeded
  rows 1 oncegate effects list --state retry
  stop
  sed -i.bak '/name: old/d' oncegate.yml
  start oncegate serve
}
