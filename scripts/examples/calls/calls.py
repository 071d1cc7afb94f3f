#!/usr/bin/env python3
"""Four callers of Oncegate that never do anything twice, with Python's standard library.

    calls.py tool CONVERSATION STEP ARGUMENTS    a tool of an agent, called with the model's JSON
    calls.py step RUN STEP TICK PAYLOAD          a step of a workflow
    calls.py form SUBMISSION                     a form that somebody submitted
    calls.py resend ORDER VERSION                a receipt, once for each version

ONCEGATE is the address, and CALLER_SECRET the secret. The exit code is 0 if it is done, 1 if it failed, 2 if the call is
wrong, 3 if nobody knows whether it happened, and 75 if there was no answer in time: then make the same call later.
"""

import http.client
import json
import os
import random
import sys
import time
import urllib.error
import urllib.request

PATIENCE = float(os.environ.get("PATIENCE", "120"))  # seconds until a call without a result is given up
ATTEMPT = 30  # seconds for one request; more than it asks Oncegate to wait

# What an agent's model sees of the tool. There is no key in it: a model that writes one writes another one each time.
CHARGE = {
    "name": "charge",
    "description": "Charge the customer once.",
    "input_schema": {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]},
}


def tool(conversation, step, arguments):
    """The key is the conversation and the number of the step, which whoever runs the agent counts."""
    return call("agents", "charge", arguments, {"Conversation-Id": conversation, "Step": step})


def step(run, name, tick, payload):
    """A retry of the engine has the same tick. Only a decision to do the step once more has the next one."""
    return call("workflow", "ship", payload, {"Run-Id": run, "Step": name, "Tick": tick})


def form(submission):
    """The page that shows the form put an id into it, so that a double click and a reload are one submission."""
    return call("website", "signup", submission)


def resend(order, version):
    """The same version is one mail, however often it is asked for. To send another one, a person increases it."""
    return call("shop", "receipt", {"order": order, "version": version})


class Refused(Exception):
    """The call is wrong, and would be wrong again."""


class Unfinished(Exception):
    """There is no result yet. The same call, made later, gives it and does nothing twice."""


def call(source, operation, body, headers=None):
    """Repeat one call until there is a result. Every request has the same headers and body, and so the same key."""
    request = urllib.request.Request(
        os.environ["ONCEGATE"] + "/in/" + source,
        data=json.dumps(body).encode(),
        method="POST",
        headers={
            "Authorization": "Bearer " + os.environ["CALLER_SECRET"],
            "Content-Type": "application/json",
            "Oncegate-Operation": operation,
            "Prefer": "wait=20",
            **(headers or {}),
        },
    )
    end = time.monotonic() + PATIENCE
    pause = 0.1
    while True:
        after = 0.0
        try:
            with urllib.request.urlopen(request, timeout=ATTEMPT) as answer:
                text = answer.read()
                if answer.status == 200:
                    return json.loads(text)
                after = seconds(answer.headers)  # 202: recorded, and not finished within the wait
        except urllib.error.HTTPError as refusal:
            after = seconds(refusal.headers)
            try:
                problem = json.loads(refusal.read() or b"{}")
            except ValueError:
                problem = {}
            except (OSError, http.client.HTTPException):
                continue  # the answer was cut off
            if not worth_repeating(refusal.code, problem):
                # payload_differs: this key stands for another call. Mend what makes the key; never make one up.
                raise Refused(f"{refusal.code} {problem.get('code', '')} {problem.get('detail', '')}".strip()) from None
        except (OSError, http.client.HTTPException):
            pass  # no answer, or half of one: nobody knows what became of the call, so ask again under the same key
        if time.monotonic() + max(after, pause) > end:
            raise Unfinished
        time.sleep(max(after, pause * random.uniform(0.5, 1)))
        pause = min(2 * pause, 5)


def worth_repeating(status, problem):
    """Whether the same call may be answered otherwise: it is in flight, there were too many, or Oncegate is not well."""
    return status == 409 and problem.get("code") == "in_flight" or status in (408, 429) or status >= 500


def seconds(headers):
    """How long Oncegate asks to wait."""
    value = headers.get("Retry-After", "")
    return float(value) if value.isdigit() else 0.0


def main(arguments):
    callers = {
        "tool": lambda conversation, number, text: tool(conversation, number, json.loads(text)),
        "step": lambda run, name, tick, text: step(run, name, tick, json.loads(text)),
        "form": lambda text: form(json.loads(text)),
        "resend": lambda order, version: resend(order, int(version)),
    }
    try:
        result = callers[arguments[0]](*arguments[1:])
    except Refused as why:
        print("refused:", why)
        return 2
    except Unfinished:
        print("unfinished: make the same call later")
        return 75
    # A result is never retried under its key: it stands. done: go on. failed, partial: the effects say why, and a new
    # decision needs a new key. indeterminate: it may have happened, so nobody calls again; the same call tells the
    # result once a person has found out.
    print(result["status"], result["event"])
    return {"done": 0, "indeterminate": 3}.get(result["status"], 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
