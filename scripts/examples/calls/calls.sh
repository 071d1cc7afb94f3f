#!/bin/sh
# Four callers of Oncegate that never do anything twice, with curl.
#
#   calls.sh tool CONVERSATION STEP ARGUMENTS    a tool of an agent, called with the model's JSON
#   calls.sh step RUN STEP TICK PAYLOAD          a step of a workflow
#   calls.sh form SUBMISSION                     a form that somebody submitted
#   calls.sh resend ORDER VERSION                a receipt, once for each version
#
# ONCEGATE is the address, and CALLER_SECRET the secret. The exit code is 0 if it is done, 1 if it failed, 2 if the call
# is wrong, 3 if nobody knows whether it happened, and 75 if there was no answer in time: then make the same call later.
set -u
patience=${PATIENCE:-120} # seconds until a call without a result is given up
attempt=30                # seconds for one request; more than it asks Oncegate to wait

# The key is the conversation and the number of the step, which whoever runs the agent counts. The model writes the
# arguments and sees no key: it would write another one each time.
tool() { call agents charge "$3" -H "Conversation-Id: $1" -H "Step: $2"; }

# A retry of the engine has the same tick. Only a decision to do the step once more has the next one.
step() { call workflow ship "$4" -H "Run-Id: $1" -H "Step: $2" -H "Tick: $3"; }

# The page that shows the form put an id into it, so that a double click and a reload are one submission.
form() { call website signup "$1"; }

# The same version is one mail, however often it is asked for. To send another one, a person increases it.
resend() { call shop receipt "{\"order\":\"$1\",\"version\":$2}"; }

# call SOURCE OPERATION BODY [-H HEADER]...: repeats one call until there is a result. Every request has the same headers
# and body, and so the same key.
call() {
  source=$1 operation=$2 body=$3
  shift 3
  end=$(($(date +%s) + patience)) pause=1
  while :; do
    # curl -d alone would call the JSON a form. Without an answer, or with half of one, nobody knows what became of the
    # call, so it is made again under the same key.
    if status=$(curl -sS --max-time $attempt -o "$answer" -D "$headers" -w '%{http_code}' "$ONCEGATE/in/$source" \
      -H "Authorization: Bearer $CALLER_SECRET" -H "Oncegate-Operation: $operation" -H 'Content-Type: application/json' \
      -H 'Prefer: wait=20' "$@" --data-binary "$body"); then
      case $status in
      200) finish ;;
      409) [ "$(member code)" = in_flight ] || refuse ;;
      202 | 408 | 429 | 5??) ;;
      *) refuse ;;
      esac
    fi
    after=$(sed -n 's/^[Rr]etry-[Aa]fter: *\([0-9]\{1,4\}\).*/\1/p' "$headers")
    [ "${after:-0}" -gt "$pause" ] || after=$pause
    if [ $(($(date +%s) + after)) -gt "$end" ]; then
      echo "unfinished: make the same call later"
      exit 75
    fi
    sleep "$after"
    pause=$((pause < 4 ? pause * 2 : 5))
  done
}

# member NAME: the first text of that name in the answer.
member() { grep -o "\"$1\": *\"[^\"]*\"" "$answer" | head -n 1 | cut -d '"' -f 4; }

# A result is never retried under its key: it stands. done: go on. failed, partial: the effects say why, and a new
# decision needs a new key. indeterminate: it may have happened, so nobody calls again; the same call tells the result
# once a person has found out.
finish() {
  result=$(member status)
  echo "$result $(member event)"
  case $result in
  done) exit 0 ;;
  indeterminate) exit 3 ;;
  *) exit 1 ;;
  esac
}

# payload_differs: this key stands for another call. Mend what makes the key; never make one up.
refuse() {
  echo "refused: $status $(member code) $(member detail)"
  exit 2
}

answer=$(mktemp) && headers=$(mktemp) || exit 75
trap 'rm -f "$answer" "$headers"' EXIT
caller=$1
shift
case $caller in
tool | step | form | resend) "$caller" "$@" ;;
*) echo "refused: $caller is none of tool, step, form and resend" && exit 2 ;;
esac
