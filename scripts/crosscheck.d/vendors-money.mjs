// Vendors that move money, and what money buys.
import { createRequire } from 'node:module';
import { accepts, header, hmac, json, lower, secret, seconds, settles, standard } from './helpers.mjs';

const require = createRequire(import.meta.url);

export const money = [];
const add = (vendor) => money.push(vendor);

{
  const { Webhook } = require('coinbase-commerce-node');
  const key = secret();
  add({
    vendor: 'Coinbase Commerce', provider: 'coinbase-commerce', sdk: 'coinbase-commerce-node', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ attempt_number: 1, event: { id, type: 'charge:confirmed', created_at: new Date().toISOString(), data: { id: 'c1', name: text } } }),
    sign: header('X-CC-Webhook-Signature', (req) => Webhook.computeSignature(req.body, key)),
    verify: (req) => accepts(() => { Webhook.verifyEventBody(req.body, lower(req.headers)['x-cc-webhook-signature'], key); }),
  });
}
{
  const { validateEvent, WebhookVerificationError } = require('@polar-sh/sdk/webhooks');
  const key = 'polar_whs_' + secret();
  // The library parses what it has verified; only the first says whose it is.
  const verified = (req) => { try { validateEvent(req.body, lower(req.headers), key); return true; } catch (error) { return !(error instanceof WebhookVerificationError); } };
  add({ ...standard('Polar (older secrets)', 'polar-legacy', '@polar-sh/sdk', 'webhook-', (_, req) => verified(req), undefined, { key, bytes: Buffer.from(key) }) });
}
{
  const { Cashfree, CFEnvironment } = require('cashfree-pg');
  const key = secret();
  const client = new Cashfree(CFEnvironment.SANDBOX, 'id', key);
  add({
    vendor: 'Cashfree', provider: 'cashfree', sdk: 'cashfree-pg', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ type: 'PAYMENT_SUCCESS_WEBHOOK', event_time: new Date().toISOString(), data: { order: { order_id: id, order_note: text } } }),
    rule: (req) => { const at = String(Date.now()); return { ...req, headers: { ...req.headers, 'x-webhook-timestamp': at, 'x-webhook-signature': hmac('sha256', key, at + req.body, 'base64') } }; },
    verify: (req) => accepts(() => { client.PGVerifyWebhookSignature(lower(req.headers)['x-webhook-signature'], req.body, lower(req.headers)['x-webhook-timestamp']); }),
  });
}
{
  const { Lithic } = require('lithic');
  const client = new Lithic({ apiKey: 'k' });
  add(standard('Lithic', 'lithic', 'lithic', 'webhook-', (key, req) => accepts(() => { client.webhooks.verifySignature(req.body, lower(req.headers), key); })));
}
{
  const { ModernTreasury } = require('modern-treasury');
  const key = secret();
  const client = new ModernTreasury({ apiKey: 'k', organizationID: 'o', webhookKey: key });
  add({
    vendor: 'Modern Treasury', provider: 'modern-treasury', sdk: 'modern-treasury', secret: key, unsigned: (id) => ({ ...json, 'X-Webhook-ID': id, 'X-Topic': 'payment_order' }),
    body: (text, id) => JSON.stringify({ event: 'completed', data: { id, object: 'payment_order', description: text } }),
    sign: header('X-Signature', (req) => client.webhooks.getSignature(req.body)),
    verify: (req) => accepts(() => client.webhooks.validateSignature(req.body, lower(req.headers))),
  });
}
{
  const { Finch } = require('@tryfinch/finch-api');
  const client = new Finch({ accessToken: 'k' });
  const raw = Buffer.from(secret(16), 'hex');
  const key = raw.toString('base64');
  add({
    vendor: 'Finch', provider: 'finch', sdk: '@tryfinch/finch-api', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ company_id: id, event_type: 'employment.updated', data: { individual_id: text } }),
    rule: (req) => { const at = String(seconds()); const id = 'msg_' + secret(6); return { ...req, headers: { ...req.headers, 'Finch-Event-Id': id, 'Finch-Timestamp': at, 'Finch-Signature': 'v1,' + hmac('sha256', raw, `${id}.${at}.${req.body}`, 'base64') } }; },
    verify: (req) => accepts(() => { client.webhooks.verifySignature(req.body, lower(req.headers), key); }),
  });
}
{
  const { DodoPayments } = require('dodopayments');
  const client = new DodoPayments({ bearerToken: 'k' });
  add(standard('Dodo Payments', 'dodo-payments', 'dodopayments', 'webhook-', (key, req) => settles(async () => { await client.webhooks.unwrap(req.body, { headers: lower(req.headers), key }); return true; })));
}
{
  const EasyPost = require('@easypost/api');
  const client = new (EasyPost.default ?? EasyPost)('key');
  const key = secret() + 'Zoé'; // the library decomposes what Unicode can write in two ways
  add({
    vendor: 'EasyPost', provider: 'easypost', sdk: '@easypost/api', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ id: 'evt_' + id, object: 'Event', description: 'tracker.updated', created_at: new Date().toISOString(), result: { id: 'trk_1', carrier: text, note: 'weight' } }),
    rule: header('X-Hmac-Signature', (req) => 'hmac-sha256-hex=' + hmac('sha256', key.normalize('NFKD'), req.body, 'hex')),
    verify: (req) => accepts(() => { client.Utils.validateWebhook(Buffer.from(req.body), req.headers, key); }),
  });
}
