// Four callers of Oncegate that never do anything twice, without a package. It needs Node 18 or newer.
//
//   node calls.mjs tool CONVERSATION STEP ARGUMENTS    a tool of an agent, called with the model's JSON
//   node calls.mjs step RUN STEP TICK PAYLOAD          a step of a workflow
//   node calls.mjs form SUBMISSION                     a form that somebody submitted
//   node calls.mjs resend ORDER VERSION                a receipt, once for each version
//
// ONCEGATE is the address, and CALLER_SECRET the secret. The exit code is 0 if it is done, 1 if it failed, 2 if the call
// is wrong, 3 if nobody knows whether it happened, and 75 if there was no answer in time: then make the same call later.

import { setTimeout as sleep } from "node:timers/promises";

const patience = 1000 * Number(process.env.PATIENCE ?? 120); // until a call without a result is given up
const attempt = 30_000; // for one request; more than it asks Oncegate to wait

// What an agent's model sees of the tool. There is no key in it: a model that writes one writes another one each time.
export const charge = {
  name: "charge",
  description: "Charge the customer once.",
  input_schema: { type: "object", properties: { amount: { type: "integer" } }, required: ["amount"] },
};

// The key is the conversation and the number of the step, which whoever runs the agent counts.
export function tool(conversation, step, args) {
  return call("agents", "charge", args, { "Conversation-Id": conversation, Step: step });
}

// A retry of the engine has the same tick. Only a decision to do the step once more has the next one.
export function step(run, name, tick, payload) {
  return call("workflow", "ship", payload, { "Run-Id": run, Step: name, Tick: tick });
}

// The page that shows the form put an id into it, so that a double click and a reload are one submission.
export function form(submission) {
  return call("website", "signup", submission);
}

// The same version is one mail, however often it is asked for. To send another one, a person increases it.
export function resend(order, version) {
  return call("shop", "receipt", { order, version });
}

// The call is wrong, and would be wrong again.
class Refused extends Error {}

// There is no result yet. The same call, made later, gives it and does nothing twice.
class Unfinished extends Error {}

// Repeats one call until there is a result. Every request has the same headers and body, and so the same key.
async function call(source, operation, body, headers = {}) {
  const request = {
    method: "POST",
    body: JSON.stringify(body),
    headers: {
      authorization: `Bearer ${process.env.CALLER_SECRET}`,
      "content-type": "application/json",
      "oncegate-operation": operation,
      prefer: "wait=20",
      ...headers,
    },
  };
  const end = Date.now() + patience;
  for (let pause = 100; ; pause = Math.min(2 * pause, 5000)) {
    let after = 0;
    // No answer, or half of one: nobody knows what became of the call, so ask again under the same key.
    const answer = await send(`${process.env.ONCEGATE}/in/${source}`, request).catch(() => null);
    if (answer?.status === 200) return answer.content;
    if (answer) {
      if (answer.status !== 202 && !worthRepeating(answer)) {
        // payload_differs: this key stands for another call. Mend what makes the key; never make one up.
        throw new Refused([answer.status, answer.content.code, answer.content.detail].filter(Boolean).join(" "));
      }
      after = answer.after;
    }
    if (Date.now() + Math.max(after, pause) > end) throw new Unfinished();
    await sleep(Math.max(after, pause * (0.5 + Math.random() / 2)));
  }
}

// One request, and the whole of its answer.
async function send(url, request) {
  const response = await fetch(url, { ...request, signal: AbortSignal.timeout(attempt) });
  const text = await response.text();
  const json = /json/.test(response.headers.get("content-type") ?? "");
  return {
    status: response.status,
    content: json ? JSON.parse(text) : {},
    after: 1000 * (parseInt(response.headers.get("retry-after") ?? "0", 10) || 0),
  };
}

// Whether the same call may be answered otherwise: it is in flight, there were too many, or Oncegate is not well.
function worthRepeating({ status, content }) {
  return (status === 409 && content.code === "in_flight") || status === 408 || status === 429 || status >= 500;
}

async function main([caller, ...args]) {
  const callers = {
    tool: (conversation, number, text) => tool(conversation, number, JSON.parse(text)),
    step: (run, name, tick, text) => step(run, name, tick, JSON.parse(text)),
    form: (text) => form(JSON.parse(text)),
    resend: (order, version) => resend(order, Number(version)),
  };
  try {
    const result = await callers[caller](...args);
    // A result is never retried under its key: it stands. done: go on. failed, partial: the effects say why, and a new
    // decision needs a new key. indeterminate: it may have happened, so nobody calls again; the same call tells the
    // result once a person has found out.
    console.log(result.status, result.event);
    return { done: 0, indeterminate: 3 }[result.status] ?? 1;
  } catch (error) {
    if (error instanceof Refused) {
      console.log("refused:", error.message);
      return 2;
    }
    if (error instanceof Unfinished) {
      console.log("unfinished: make the same call later");
      return 75;
    }
    throw error;
  }
}

process.exitCode = await main(process.argv.slice(2));
