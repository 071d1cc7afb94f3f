// The vendors: how each one's own library signs or verifies, and which provider
// of the catalogue it is. A library that can only verify does not sign; the
// request is then signed here by the vendor's written rule, and counts only if
// the vendor's library accepts it before ours is asked.
import { createHash, createSign, generateKeyPairSync, randomUUID, sign as signWith } from 'node:crypto';
import { createRequire } from 'node:module';
import { accepts, header, hmac, json, lower, secret, seconds, settles, standard } from './helpers.mjs';
import { messages } from './vendors-messages.mjs';
import { money } from './vendors-money.mjs';
import { others } from './vendors-others.mjs';
import { tools } from './vendors-tools.mjs';

const require = createRequire(import.meta.url);

const list = [];
const add = (vendor) => list.push(vendor);

{
  const Stripe = require('stripe');
  const stripe = new Stripe('sk_test_' + secret());
  const key = 'whsec_' + secret();
  add({
    vendor: 'Stripe', provider: 'stripe', sdk: 'stripe', secret: key, unsigned: () => ({ ...json }),
    sign: header('Stripe-Signature', (req) => stripe.webhooks.generateTestHeaderString({ payload: req.body, secret: key })),
    verify: (req) => accepts(() => stripe.webhooks.constructEvent(req.body, lower(req.headers)['stripe-signature'], key)),
  });
}
{
  const { Webhooks } = await import('@octokit/webhooks');
  const key = secret();
  const webhooks = new Webhooks({ secret: key });
  add({
    vendor: 'GitHub', provider: 'github', sdk: '@octokit/webhooks', secret: key,
    unsigned: () => ({ ...json, 'X-GitHub-Event': 'issues', 'X-GitHub-Delivery': randomUUID() }),
    sign: async (req) => ({ ...req, headers: { ...req.headers, 'X-Hub-Signature-256': await webhooks.sign(req.body) } }),
    verify: (req) => settles(() => webhooks.verify(req.body, lower(req.headers)['x-hub-signature-256'])),
  });
}
{
  const { Webhook } = require('svix');
  add(standard('Svix', 'svix', 'svix', 'svix-',
    (key, req) => accepts(() => new Webhook(key).verify(req.body, lower(req.headers))),
    (key, id, at, body) => new Webhook(key).sign(id, at, body)));
}
{
  const { verifyWebhook } = await import('@clerk/backend/webhooks');
  add(standard('Clerk', 'clerk', '@clerk/backend', 'svix-',
    (key, req) => settles(() => verifyWebhook(new Request(req.url, { method: 'POST', headers: req.headers, body: req.body }), { signingSecret: key }).then(() => true))));
}
{
  const { Resend } = require('resend');
  const resend = new Resend('re_' + secret());
  add(standard('Resend', 'resend', 'resend', 'svix-', (key, req) => accepts(() => {
    const { 'svix-id': id, 'svix-timestamp': timestamp, 'svix-signature': signature } = lower(req.headers);
    resend.webhooks.verify({ payload: req.body, headers: { id, timestamp, signature }, webhookSecret: key });
  })));
}
{
  const { Webhook } = require('standardwebhooks');
  add(standard('Standard Webhooks', 'standard-webhooks', 'standardwebhooks', 'webhook-',
    (key, req) => accepts(() => new Webhook(key).verify(req.body, lower(req.headers))),
    (key, id, at, body) => new Webhook(key).sign(id, at, body)));
}
{
  const { OpenAI } = require('openai');
  const client = new OpenAI({ apiKey: 'sk-' + secret() });
  add(standard('OpenAI', 'openai', 'openai', 'webhook-', (key, req) => settles(() => client.webhooks.verifySignature(req.body, lower(req.headers), key).then(() => true))));
}
{
  const { validateWebhook } = require('replicate');
  add(standard('Replicate', 'replicate', 'replicate', 'webhook-', (key, req) => settles(() => validateWebhook({
    id: lower(req.headers)['webhook-id'], timestamp: lower(req.headers)['webhook-timestamp'], signature: lower(req.headers)['webhook-signature'], body: req.body, secret: key,
  }))));
}
{
  const twilio = require('twilio');
  const key = secret(16);
  const form = (body) => Object.fromEntries(new URLSearchParams(body));
  add({
    vendor: 'Twilio (form)', provider: 'twilio', sdk: 'twilio', secret: key, url: 'https://hooks.example.com/in/twilio?tenant=a%20b',
    unsigned: () => ({ 'Content-Type': 'application/x-www-form-urlencoded' }),
    body: (text, id) => new URLSearchParams({ MessageSid: 'SM' + id, AccountSid: 'AC1', From: '+15550001', Body: text, Empty: '' }).toString(),
    tamper: (body) => body.replace('15550001', '15550002'),
    sign: header('X-Twilio-Signature', (req) => twilio.getExpectedTwilioSignature(key, req.url, form(req.body))),
    verify: (req) => twilio.validateRequest(key, lower(req.headers)['x-twilio-signature'], req.url, form(req.body)),
  });
  add({
    vendor: 'Twilio (JSON)', provider: 'twilio', sdk: 'twilio', secret: key, unsigned: () => ({ ...json }),
    at: (body) => 'https://hooks.example.com/in/twilio?bodySHA256=' + createHash('sha256').update(body).digest('hex'),
    sign: header('X-Twilio-Signature', (req) => twilio.getExpectedTwilioSignature(key, req.url, {})),
    verify: (req) => twilio.validateRequestWithBody(key, lower(req.headers)['x-twilio-signature'], req.url, req.body),
  });
}
{
  const { EventWebhook } = require('@sendgrid/eventwebhook');
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const spki = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
  const hook = new EventWebhook();
  const names = { signature: 'X-Twilio-Email-Event-Webhook-Signature', at: 'X-Twilio-Email-Event-Webhook-Timestamp' };
  add({
    vendor: 'SendGrid', provider: 'sendgrid-events', sdk: '@sendgrid/eventwebhook', secret: spki, unsigned: () => ({ ...json }),
    privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    body: (text, id) => JSON.stringify([{ sg_event_id: id, sg_message_id: 'm1', event: 'processed', timestamp: seconds(), text }]) + '\r\n',
    rule: (req) => {
      const at = String(seconds());
      return { ...req, headers: { ...req.headers, [names.at]: at, [names.signature]: createSign('sha256').update(at + req.body).sign(privateKey, 'base64') } };
    },
    verify: (req) => accepts(() => hook.verifySignature(hook.convertPublicKeyToECDSA(spki), req.body, lower(req.headers)[names.signature.toLowerCase()], lower(req.headers)[names.at.toLowerCase()])),
  });
}
{
  const { WebhooksHelper } = require('square');
  const key = secret();
  add({
    vendor: 'Square', provider: 'square', sdk: 'square', secret: key, url: 'https://hooks.example.com/in/square', unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ merchant_id: 'M1', type: 'payment.updated', event_id: id, created_at: new Date().toISOString(), data: { type: 'payment', id: 'p1', object: { note: text } } }),
    rule: header('x-square-hmacsha256-signature', (req) => hmac('sha256', key, req.url + req.body, 'base64')),
    verify: (req) => settles(() => WebhooksHelper.verifySignature({ requestBody: req.body, signatureHeader: lower(req.headers)['x-square-hmacsha256-signature'], signatureKey: key, notificationUrl: req.url })),
  });
}
{
  const { Paddle } = require('@paddle/paddle-node-sdk');
  const paddle = new Paddle('pdl_' + secret());
  const key = 'pdl_ntfset_' + secret();
  add({
    vendor: 'Paddle', provider: 'paddle', sdk: '@paddle/paddle-node-sdk', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ event_id: 'evt_' + id, event_type: 'address.created', occurred_at: new Date().toISOString(), notification_id: 'ntf_' + id, data: { id: 'add_1', description: text } }),
    rule: header('Paddle-Signature', (req) => { const at = seconds(); return `ts=${at};h1=${hmac('sha256', key, `${at}:${req.body}`, 'hex')}`; }),
    verify: (req) => settles(() => paddle.webhooks.isSignatureValid(req.body, key, lower(req.headers)['paddle-signature'])),
  });
}
{
  const { verifyKey } = require('discord-interactions');
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32).toString('hex');
  add({
    vendor: 'Discord', provider: 'discord', sdk: 'discord-interactions', secret: raw, unsigned: () => ({ ...json }),
    privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    body: (text, id) => JSON.stringify({ id, application_id: '1', type: 2, token: 't', version: 1, data: { id: '1', name: text } }),
    rule: (req) => {
      const at = String(seconds());
      return { ...req, headers: { ...req.headers, 'X-Signature-Timestamp': at, 'X-Signature-Ed25519': signWith(null, Buffer.from(at + req.body), privateKey).toString('hex') } };
    },
    verify: (req) => settles(() => verifyKey(req.body, lower(req.headers)['x-signature-ed25519'], lower(req.headers)['x-signature-timestamp'], raw)),
  });
}
{
  const { validateSignature } = require('@line/bot-sdk');
  const key = secret(16);
  add({
    vendor: 'LINE', provider: 'line', sdk: '@line/bot-sdk', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ destination: 'U1', events: [{ type: 'message', webhookEventId: id, timestamp: Date.now(), source: { type: 'user', userId: 'U2' }, message: { type: 'text', text } }] }),
    rule: header('x-line-signature', (req) => hmac('sha256', key, req.body, 'base64')),
    verify: (req) => validateSignature(req.body, key, lower(req.headers)['x-line-signature']),
  });
}
{
  const Razorpay = require('razorpay');
  const key = secret();
  add({
    vendor: 'Razorpay', provider: 'razorpay', sdk: 'razorpay', secret: key, unsigned: (id) => ({ ...json, 'X-Razorpay-Event-Id': id }),
    rule: header('X-Razorpay-Signature', (req) => hmac('sha256', key, req.body, 'hex')),
    verify: (req) => accepts(() => Razorpay.validateWebhookSignature(req.body, lower(req.headers)['x-razorpay-signature'], key)),
  });
}
{
  const { WorkOS } = require('@workos-inc/node');
  const workos = new WorkOS('sk_' + secret());
  const key = secret();
  // The library signs the parsed payload, written again by JavaScript.
  add({
    vendor: 'WorkOS', provider: 'workos', sdk: '@workos-inc/node', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ id: 'event_' + id, event: 'user.created', created_at: new Date().toISOString(), data: { object: 'user', id: 'user_1', first_name: text } }),
    sign: async (req) => { const at = Date.now(); return { ...req, headers: { ...req.headers, 'WorkOS-Signature': `t=${at}, v1=${await workos.webhooks.computeSignature(at, JSON.parse(req.body), key)}` } }; },
    verify: (req) => settles(async () => workos.webhooks.verifyHeader({ payload: JSON.parse(req.body), sigHeader: lower(req.headers)['workos-signature'], secret: key })),
  });
}
{
  const { Mux } = require('@mux/mux-node');
  const key = secret();
  const mux = new Mux({ tokenId: 'x', tokenSecret: 'x', webhookSecret: key });
  add({
    vendor: 'Mux', provider: 'mux', sdk: '@mux/mux-node', secret: key, unsigned: () => ({ ...json }),
    rule: header('Mux-Signature', (req) => { const at = seconds(); return `t=${at},v1=${hmac('sha256', key, `${at}.${req.body}`, 'hex')}`; }),
    verify: (req) => settles(async () => { await mux.webhooks.verifySignature(req.body, lower(req.headers), key); return true; }),
  });
}
{
  require('@shopify/shopify-api/adapters/node');
  const { shopifyApi, ApiVersion, LogSeverity } = require('@shopify/shopify-api');
  const key = secret();
  const shopify = shopifyApi({
    apiKey: 'k', apiSecretKey: key, scopes: ['read_orders'], hostName: 'hooks.example.com', isEmbeddedApp: false,
    apiVersion: Object.values(ApiVersion)[0], logger: { log: () => {}, level: LogSeverity.Error },
  });
  add({
    vendor: 'Shopify', provider: 'shopify', sdk: '@shopify/shopify-api', secret: key,
    unsigned: () => ({ ...json, 'X-Shopify-Topic': 'orders/paid', 'X-Shopify-Shop-Domain': 'a.myshopify.com', 'X-Shopify-API-Version': '2026-01', 'X-Shopify-Webhook-Id': randomUUID(), 'X-Shopify-Event-Id': randomUUID() }),
    rule: header('X-Shopify-Hmac-Sha256', (req) => hmac('sha256', key, req.body, 'base64')),
    verify: (req) => settles(async () => (await shopify.webhooks.validate({ rawBody: req.body, rawRequest: { headers: lower(req.headers), url: '/', method: 'POST' } })).valid),
  });
}
{
  const { verifySlackRequest } = require('@slack/bolt');
  const key = secret(16);
  add({
    vendor: 'Slack', provider: 'slack', sdk: '@slack/bolt', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ type: 'event_callback', team_id: 'T1', event_id: 'Ev' + id, event_time: seconds(), event: { type: 'app_mention', text } }),
    rule: (req) => { const at = String(seconds()); return { ...req, headers: { ...req.headers, 'X-Slack-Request-Timestamp': at, 'X-Slack-Signature': 'v0=' + hmac('sha256', key, `v0:${at}:${req.body}`, 'hex') } }; },
    verify: (req) => accepts(() => verifySlackRequest({ signingSecret: key, body: req.body, headers: { 'x-slack-signature': lower(req.headers)['x-slack-signature'], 'x-slack-request-timestamp': Number(lower(req.headers)['x-slack-request-timestamp']) } })),
  });
}
{
  const braintree = require('braintree');
  const publicKey = 'integration_public_key';
  const privateKey = secret(16);
  const gateway = new braintree.BraintreeGateway({ environment: braintree.Environment.Development, merchantId: 'm', publicKey, privateKey });
  const parse = async (body) => { const form = new URLSearchParams(body); return gateway.webhookNotification.parse(form.get('bt_signature'), form.get('bt_payload')); };
  add({
    vendor: 'Braintree', provider: 'braintree', sdk: 'braintree', secret: privateKey, settings: { public_key: publicKey },
    unsigned: () => ({ 'Content-Type': 'application/x-www-form-urlencoded' }),
    body: (text, id) => new URLSearchParams({ bt_payload: Buffer.from(`<notification><timestamp type="datetime">${new Date().toISOString()}</timestamp><kind>check</kind><subject><check type="boolean">true</check></subject></notification>`).toString('base64') + '\n' }).toString(),
    tamper: (body) => body.replace(/bt_payload=(.)(.)/, (_, a, b) => 'bt_payload=' + (a === 'Q' ? 'R' : 'Q') + b),
    sign: async (req, id) => {
      const sample = await gateway.webhookTesting.sampleNotification(braintree.WebhookNotification.Kind.SubscriptionWentPastDue, id);
      return { ...req, body: new URLSearchParams(sample).toString() };
    },
    verify: (req) => settles(async () => { await parse(req.body); return true; }),
  });
}
{
  const { parse } = require('gocardless-nodejs/webhooks');
  const key = secret();
  add({
    vendor: 'GoCardless', provider: 'gocardless', sdk: 'gocardless-nodejs', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ events: [{ id: 'EV' + id, created_at: new Date().toISOString(), action: 'confirmed', resource_type: 'payments', links: { payment: 'PM1' }, details: { description: text } }], meta: { webhook_id: 'WB1' } }),
    rule: header('Webhook-Signature', (req) => hmac('sha256', key, req.body, 'hex')),
    verify: (req) => accepts(() => { parse(req.body, key, lower(req.headers)['webhook-signature']); return true; }),
  });
}
{
  const { hmacValidator: HmacValidator } = require('@adyen/api-library');
  const validator = new HmacValidator();
  const key = secret(32).toUpperCase();
  const items = (body) => JSON.parse(body).notificationItems.map((item) => item.NotificationRequestItem);
  add({
    vendor: 'Adyen', provider: 'adyen', sdk: '@adyen/api-library', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ live: 'false', notificationItems: ['AUTHORISATION', 'CAPTURE'].map((eventCode) => ({ NotificationRequestItem: {
      eventCode, success: 'true', eventDate: new Date().toISOString(), pspReference: id, originalReference: '', merchantAccountCode: 'TestMerchant', merchantReference: text, amount: { currency: 'EUR', value: 1000 }, additionalData: {} } })) }),
    tamper: (body) => body.replace('1000', '1001'),
    sign: (req) => {
      const document = JSON.parse(req.body);
      for (const { NotificationRequestItem: item } of document.notificationItems) item.additionalData = { hmacSignature: validator.calculateHmac(item, key) };
      return { ...req, body: JSON.stringify(document) };
    },
    verify: (req) => accepts(() => items(req.body).every((item) => validator.validateHMAC(item, key))),
  });
  add({
    vendor: 'Adyen Platform', provider: 'adyen-platform', sdk: '@adyen/api-library', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ data: { id, reference: text }, environment: 'test', timestamp: new Date().toISOString(), type: 'balancePlatform.transfer.created' }),
    sign: header('HmacSignature', (req) => validator.calculateHmacSignature ? validator.calculateHmacSignature(req.body, key) : validator.calculateHmac(req.body, key)),
    verify: (req) => accepts(() => validator.validateBankingHMAC(lower(req.headers).hmacsignature, key, req.body)),
  });
}
{
  const { Signature } = require('@hubspot/api-client');
  const key = randomUUID();
  const call = (version, req, at) => ({ signatureVersion: version, clientSecret: key, requestBody: req.body, url: req.url, method: 'POST', timestamp: at });
  add({
    vendor: 'HubSpot', provider: 'hubspot', sdk: '@hubspot/api-client', secret: key, url: 'https://hooks.example.com/in/hubspot', unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify([{ eventId: 1, subscriptionId: 2, portalId: 3, appId: 4, occurredAt: Date.now(), subscriptionType: 'contact.creation', attemptNumber: 0, objectId: 5, note: text, id }]),
    sign: (req) => { const at = Date.now(); return { ...req, headers: { ...req.headers, 'X-HubSpot-Request-Timestamp': String(at), 'X-HubSpot-Signature-v3': Signature.getSignature('POST', 'v3', call('v3', req, at)) } }; },
    verify: (req) => accepts(() => Signature.isValid({ ...call('v3', req, Number(lower(req.headers)['x-hubspot-request-timestamp'])), signature: lower(req.headers)['x-hubspot-signature-v3'] })),
  });
}
{
  const { verify } = require('messagebird/lib/webhook-signature-jwt');
  const key = secret();
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const sha256 = (text) => createHash('sha256').update(text).digest('hex');
  add({
    vendor: 'MessageBird', provider: 'messagebird', sdk: 'messagebird', secret: key, url: 'https://hooks.example.com/in/messagebird?a=b', unsigned: () => ({ ...json }),
    rule: header('MessageBird-Signature-JWT', (req) => {
      const claims = part({ alg: 'HS256', typ: 'JWT' }) + '.' + part({ iss: 'MessageBird', nbf: seconds() - 1, iat: seconds() - 1, exp: seconds() + 60, jti: randomUUID(), url_hash: sha256(req.url), payload_hash: sha256(req.body) });
      return claims + '.' + hmac('sha256', key, claims, 'base64url');
    }),
    verify: (req) => settles(() => verify(req.url, Buffer.from(req.body), lower(req.headers)['messagebird-signature-jwt'], Buffer.from(key))),
  });
}
{
  const { basicAuthValidator } = require('chargebee');
  const validate = basicAuthValidator((user, password) => user === 'testuser' && password === 'testpass');
  add({
    vendor: 'Chargebee', provider: 'chargebee', sdk: 'chargebee', secret: 'testuser:testpass', other: 'testuser:another', unsigned: () => ({ ...json }), unbound: true,
    body: (text, id) => JSON.stringify({ id: 'ev_' + id, occurred_at: seconds(), event_type: 'customer_created', api_version: 'v2', content: { customer: { id: 'c1', first_name: text } } }),
    rule: header('Authorization', () => 'Basic ' + Buffer.from('testuser:testpass').toString('base64')),
    verify: (req) => settles(async () => { await validate(lower(req.headers)); return true; }),
  });
}
{
  const Pusher = require('pusher');
  const key = secret(10);
  const token = secret(10);
  const pusher = new Pusher({ appId: '1', key, secret: token, cluster: 'eu' });
  add({
    vendor: 'Pusher', provider: 'pusher', sdk: 'pusher', secret: `${key}=${token}`, other: `${key}=${secret(10)}`, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ time_ms: Date.now(), events: [{ name: 'client_event', channel: 'c', event: id, data: text }] }),
    rule: (req) => ({ ...req, headers: { ...req.headers, 'X-Pusher-Key': key, 'X-Pusher-Signature': hmac('sha256', token, req.body, 'hex') } }),
    verify: (req) => pusher.webhook({ headers: lower(req.headers), rawBody: req.body }).isValid(),
  });
}
{
  const { WebhooksManager } = require('box-node-sdk/lib/managers/webhooks');
  const key = secret();
  add({
    vendor: 'Box', provider: 'box', sdk: 'box-node-sdk', secret: key, unsigned: (id) => ({ ...json, 'box-delivery-id': id }),
    rule: (req) => {
      const at = new Date().toISOString();
      return { ...req, headers: { ...req.headers, 'box-delivery-timestamp': at, 'box-signature-version': '1', 'box-signature-algorithm': 'HmacSHA256', 'box-signature-primary': hmac('sha256', key, req.body + at, 'base64') } };
    },
    verify: (req) => settles(() => WebhooksManager.validateMessage(req.body, lower(req.headers), key)),
  });
}
{
  const { signRequest, verifyRequest } = require('@contentful/node-apps-toolkit');
  const key = secret(32);
  const canonical = (req) => ({ method: 'POST', path: new URL(req.url).pathname, headers: lower(req.headers), body: req.body });
  add({
    vendor: 'Contentful', provider: 'contentful', sdk: '@contentful/node-apps-toolkit', secret: key, url: 'https://hooks.example.com/in/contentful',
    unsigned: (id) => ({ ...json, 'X-Contentful-Topic': 'ContentManagement.Entry.publish', 'X-Contentful-Webhook-Request-Attempt': '1', 'X-Contentful-Event-Id': id }),
    sign: (req) => ({ ...req, headers: { ...req.headers, ...signRequest(key, canonical(req)) } }),
    verify: (req) => accepts(() => verifyRequest(key, canonical(req))),
  });
}
{
  const { encodeSignatureHeader, isValidSignature } = await import('@sanity/webhook');
  const key = secret();
  add({
    vendor: 'Sanity', provider: 'sanity', sdk: '@sanity/webhook', secret: key,
    unsigned: (id) => ({ ...json, 'sanity-operation': 'update', 'sanity-document-id': 'd1', 'sanity-transaction-id': id, 'idempotency-key': id, 'sanity-transaction-time': new Date().toISOString() }),
    sign: async (req) => ({ ...req, headers: { ...req.headers, 'sanity-webhook-signature': await encodeSignatureHeader(req.body, Date.now(), key) } }),
    verify: (req) => settles(() => isValidSignature(req.body, lower(req.headers)['sanity-webhook-signature'], key)),
  });
}

export const vendors = [...list, ...tools, ...money, ...messages, ...others];
