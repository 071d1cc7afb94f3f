// An example of a target that Oncegate forwards events to. It verifies each request,
// does its work once for each webhook-id, and answers with a status that says what
// became of it. main.go is the same in Go. It needs Node 18 or newer and no package.
//
//   WEBHOOK_SECRET=whsec_... node scripts/examples/receiver/receiver.mjs

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

// How far the time of a signature may be from ours, in seconds. A request that was
// overheard cannot be sent again later than that.
const tolerance = 5 * 60;

// The largest body that is read.
const maxBody = 10 << 20;

// The secret that the target's `sign` names: what follows "whsec_" is base64, anything
// else is the key itself.
function signingKey(secret) {
  if (!secret || secret === "whsec_") {
    console.error("receiver: WEBHOOK_SECRET is empty; set it to the secret that Oncegate signs with");
    process.exit(2);
  }
  return secret.startsWith("whsec_") ? Buffer.from(secret.slice("whsec_".length), "base64") : Buffer.from(secret);
}

const key = signingKey(process.env.WEBHOOK_SECRET);

// The reply to each webhook-id. A real target keeps it in its database, and writes it
// in the transaction that does the work: then a crash cannot come between the two, and
// two processes cannot both do it.
const done = new Map();

// Whether a request was signed with the key, not long ago (Standard Webhooks). There
// may be several signatures, while a secret is being replaced.
function genuine(headers, body) {
  const id = headers["webhook-id"];
  const timestamp = headers["webhook-timestamp"];
  const signatures = headers["webhook-signature"];
  if (!id || !signatures || !/^\d{1,12}$/.test(timestamp ?? "")) return false;
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > tolerance) return false;
  const want = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
  return signatures.split(" ").some((signature) => {
    if (!signature.startsWith("v1,")) return false;
    const got = Buffer.from(signature.slice("v1,".length), "base64");
    return got.length === want.length && timingSafeEqual(got, want);
  });
}

const server = createServer(async (request, response) => {
  // The signature is over the bytes as they came; parsed and written again they may be
  // others.
  const chunks = [];
  let size = 0;
  try {
    for await (const chunk of request) {
      size += chunk.length;
      if (size > maxBody) throw new Error("too large");
      chunks.push(chunk);
    }
  } catch {
    response.writeHead(400, { connection: "close" }).end("the body did not arrive whole\n");
    return;
  }
  const headers = request.headers;
  if (!genuine(headers, Buffer.concat(chunks))) {
    response.writeHead(401).end("the signature does not match\n");
    return;
  }
  const id = headers["webhook-id"];
  if (done.has(id)) {
    // Another attempt of what was done: the same answer, and a word that it is old.
    response.writeHead(200, { "idempotent-replayed": "true" }).end(`${done.get(id)}\n`);
    return;
  }
  // The work. An error that nothing was done for would be a 429 (try again), one that no
  // attempt can mend a 422 (give up). Any 5xx says that nobody knows.
  console.log(`did ${headers["oncegate-event-id"]} ${headers["oncegate-event-type"]} under ${id}`);
  done.set(id, "done");
  response.writeHead(200).end("done\n");
});

const [host, port] = (process.env.ADDRESS ?? "127.0.0.1:8099").split(":");
server.listen(Number(port), host, () => {
  console.log(`listening on http://${host}:${server.address().port}`);
});
