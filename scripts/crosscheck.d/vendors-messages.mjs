// Vendors of calls, texts and meetings.
import { createHash, generateKeyPairSync, randomUUID, sign as signWith } from 'node:crypto';
import { createRequire } from 'node:module';
import { accepts, header, hmac, json, lower, secret, seconds, settles } from './helpers.mjs';

const require = createRequire(import.meta.url);

export const messages = [];
const add = (vendor) => messages.push(vendor);

{
  const { Telnyx } = require('telnyx');
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32).toString('base64');
  const client = new Telnyx({ apiKey: 'k', publicKey: raw });
  add({
    vendor: 'Telnyx', provider: 'telnyx', sdk: 'telnyx', secret: raw, privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }), unsigned: () => ({ ...json }),
    other: generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'der' }).subarray(-32).toString('base64'),
    body: (text, id) => JSON.stringify({ data: { id, event_type: 'message.received', occurred_at: new Date().toISOString(), record_type: 'event', payload: { text } } }),
    rule: (req) => { const at = String(seconds()); return { ...req, headers: { ...req.headers, 'telnyx-timestamp': at, 'telnyx-signature-ed25519': signWith(null, Buffer.from(`${at}|${req.body}`), privateKey).toString('base64') } }; },
    verify: (req) => settles(async () => { await client.webhooks.unwrap(req.body, { headers: req.headers }); return true; }),
  });
}
{
  const plivo = require('plivo');
  const key = secret(16);
  const form = (body) => Object.fromEntries(new URLSearchParams(body));
  add({
    vendor: 'Plivo', provider: 'plivo', sdk: 'plivo', secret: key, unsigned: () => ({ 'Content-Type': 'application/x-www-form-urlencoded', 'X-Plivo-Signature-V3-Nonce': secret(8) }),
    body: (text, id) => new URLSearchParams({ MessageUUID: id, From: '15550001', To: '15550002', Type: 'sms', Text: text, Status: 'delivered' }).toString(),
    tamper: (body) => body.replace('15550001', '15550003'),
    rule: header('X-Plivo-Signature-V3', (req) => {
      const names = Object.entries(form(req.body)).sort(([a], [b]) => (a < b ? -1 : 1)).flat().join('');
      return hmac('sha256', key, `${req.url}?${names}.${req.headers['X-Plivo-Signature-V3-Nonce']}`, 'base64');
    }),
    verify: (req) => plivo.validateV3Signature('POST', req.url, lower(req.headers)['x-plivo-signature-v3-nonce'], key, lower(req.headers)['x-plivo-signature-v3'], form(req.body)),
  });
}
{
  const { verifySignature } = require('@vonage/jwt');
  const key = secret();
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const digest = (body) => createHash('sha256').update(body).digest('hex');
  add({
    vendor: 'Vonage', provider: 'vonage', sdk: '@vonage/jwt', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ message_uuid: id, channel: 'sms', status: 'delivered', timestamp: new Date().toISOString(), text }),
    rule: header('Authorization', (req) => {
      const claims = part({ alg: 'HS256', typ: 'JWT' }) + '.' + part({ iat: seconds(), jti: randomUUID(), iss: 'Vonage', payload_hash: digest(req.body), api_key: 'abcd1234' });
      return 'Bearer ' + claims + '.' + hmac('sha256', key, claims, 'base64url');
    }),
    // The library verifies the token; to compare its payload_hash is left to the caller.
    verify: (req) => {
      const token = lower(req.headers).authorization.slice('Bearer '.length);
      return verifySignature(token, key) && JSON.parse(Buffer.from(token.split('.')[1], 'base64url')).payload_hash === digest(req.body);
    },
  });
}
{
  const MessageValidator = require('viber-bot/lib/message/message-validator');
  const key = secret();
  const validator = new MessageValidator({ debug: () => {} }, key);
  add({
    vendor: 'Viber', provider: 'viber', sdk: 'viber-bot', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ event: 'message', timestamp: Date.now(), message_token: id, sender: { id: 'u1' }, message: { type: 'text', text } }),
    rule: header('X-Viber-Content-Signature', (req) => hmac('sha256', key, req.body, 'hex')),
    verify: (req) => validator.validateMessage(lower(req.headers)['x-viber-content-signature'], req.body),
  });
}
{
  const { AwsLambdaReceiver } = await import('@zoom/rivet/users');
  const key = secret();
  const receiver = new AwsLambdaReceiver({ webhooksSecretToken: key });
  receiver.init({ eventEmitter: { emit: async () => {} } });
  const handle = await receiver.start();
  // The library signs the parsed payload, written again by JavaScript, and tells all of it to the console.
  const status = async (event) => {
    const { debug } = console;
    console.debug = () => {};
    try { return (await handle(event, {})).statusCode; } finally { console.debug = debug; }
  };
  add({
    vendor: 'Zoom', provider: 'zoom', sdk: '@zoom/rivet', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ event: 'meeting.started', event_ts: Date.now(), payload: { account_id: 'a', object: { id, uuid: id, topic: text } } }),
    rule: (req) => { const at = String(seconds()); return { ...req, headers: { ...req.headers, 'x-zm-request-timestamp': at, 'x-zm-signature': 'v0=' + hmac('sha256', key, `v0:${at}:${req.body}`, 'hex') } }; },
    verify: (req) => settles(async () => (await status({ headers: req.headers, body: req.body, isBase64Encoded: false })) === 200),
  });
}
