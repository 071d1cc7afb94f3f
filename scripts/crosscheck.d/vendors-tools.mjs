// Vendors of tools for building and running software, and of models.
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { accepts, header, hmac, json, lower, secret, seconds, settles, standard } from './helpers.mjs';

const require = createRequire(import.meta.url);

export const tools = [];
const add = (vendor) => tools.push(vendor);

{
  const { LinearWebhookClient } = require('@linear/sdk/webhooks');
  const key = 'lin_wh_' + secret();
  const client = new LinearWebhookClient(key);
  add({
    vendor: 'Linear', provider: 'linear', sdk: '@linear/sdk', secret: key, unsigned: (id) => ({ ...json, 'Linear-Delivery': id, 'Linear-Event': 'Issue' }),
    body: (text, id) => JSON.stringify({ action: 'update', type: 'Issue', createdAt: new Date().toISOString(), data: { id, title: text }, webhookTimestamp: Date.now(), webhookId: id }),
    rule: header('Linear-Signature', (req) => hmac('sha256', key, req.body, 'hex')),
    verify: (req) => accepts(() => client.verify(Buffer.from(req.body), lower(req.headers)['linear-signature'])),
  });
}
{
  const { signWebhookPayload, verifyWebhookSignature } = require('@notionhq/client');
  const key = 'secret_' + secret();
  add({
    vendor: 'Notion', provider: 'notion', sdk: '@notionhq/client', secret: key, unsigned: () => ({ ...json }),
    sign: async (req) => ({ ...req, headers: { ...req.headers, 'X-Notion-Signature': await signWebhookPayload({ body: req.body, verificationToken: key }) } }),
    verify: (req) => settles(() => verifyWebhookSignature({ body: req.body, signature: lower(req.headers)['x-notion-signature'], verificationToken: key })),
  });
}
{
  const { WebflowClient } = require('webflow-api');
  const key = secret();
  const client = new WebflowClient({ accessToken: 'token' });
  add({
    vendor: 'Webflow', provider: 'webflow', sdk: 'webflow-api', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ triggerType: 'form_submission', payload: { id, name: text } }),
    rule: (req) => { const at = String(Date.now()); return { ...req, headers: { ...req.headers, 'x-webflow-timestamp': at, 'x-webflow-signature': hmac('sha256', key, `${at}:${req.body}`, 'hex') } }; },
    verify: (req) => settles(() => client.webhooks.verifySignature({ headers: lower(req.headers), body: req.body, secret: key })),
  });
}
for (const algorithm of ['sha1', 'sha256']) {
  const cloudinary = require('cloudinary').v2;
  const key = secret(16);
  add({
    vendor: `Cloudinary (${algorithm})`, provider: 'cloudinary', sdk: 'cloudinary', secret: key, unsigned: () => ({ ...json }),
    cannotSign: algorithm === 'sha256' && 'a request is signed with the first algorithm of a provider',
    body: (text, id) => JSON.stringify({ notification_type: 'upload', timestamp: new Date().toISOString(), request_id: id, public_id: text }),
    sign: (req) => {
      const at = seconds();
      const signature = cloudinary.utils.webhook_signature(req.body, at, { api_secret: key, signature_algorithm: algorithm });
      return { ...req, headers: { ...req.headers, 'X-Cld-Timestamp': String(at), 'X-Cld-Signature': signature } };
    },
    verify: (req) => {
      cloudinary.config({ api_secret: key, signature_algorithm: algorithm });
      return cloudinary.utils.verifyNotificationSignature(req.body, Number(lower(req.headers)['x-cld-timestamp']), lower(req.headers)['x-cld-signature']);
    },
  });
}
{
  const { ElevenLabsClient } = require('@elevenlabs/elevenlabs-js');
  const key = 'wsec_' + secret();
  const client = new ElevenLabsClient({ apiKey: 'k' });
  add({
    vendor: 'ElevenLabs', provider: 'elevenlabs', sdk: '@elevenlabs/elevenlabs-js', secret: key, unsigned: () => ({ ...json }),
    rule: header('ElevenLabs-Signature', (req) => { const at = seconds(); return `t=${at},v0=${hmac('sha256', key, `${at}.${req.body}`, 'hex')}`; }),
    verify: (req) => settles(async () => { await client.webhooks.constructEvent(req.body, lower(req.headers)['elevenlabs-signature'], key); return true; }),
  });
}
{
  const { AccessToken, WebhookReceiver } = require('livekit-server-sdk');
  const name = 'API' + secret(6);
  const key = secret();
  const receiver = new WebhookReceiver(name, key);
  add({
    vendor: 'LiveKit', provider: 'livekit', sdk: 'livekit-server-sdk', secret: key, settings: { issuer: name }, unsigned: () => ({ 'Content-Type': 'application/webhook+json' }),
    body: (text, id) => JSON.stringify({ event: 'room_started', id: 'EV_' + id, createdAt: String(seconds()), room: { sid: 'RM_1', name: text } }),
    sign: async (req) => {
      const token = new AccessToken(name, key, { ttl: 300 });
      token.sha256 = createHash('sha256').update(req.body).digest('base64');
      return { ...req, headers: { ...req.headers, Authorization: await token.toJwt() } };
    },
    verify: (req) => settles(async () => { await receiver.receive(req.body, lower(req.headers).authorization); return true; }),
  });
}
{
  const { Retell } = require('retell-sdk');
  const key = 'key_' + secret();
  const client = new Retell({ apiKey: key });
  const { sign } = require('retell-sdk/lib/webhook_auth.js');
  add({
    vendor: 'Retell AI', provider: 'retell', sdk: 'retell-sdk', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ event: 'call_ended', call: { call_id: id, transcript: text } }),
    sign: async (req) => ({ ...req, headers: { ...req.headers, 'x-retell-signature': await sign(req.body, key) } }),
    verify: (req) => settles(() => (client.verify ?? Retell.verify)(req.body, key, lower(req.headers)['x-retell-signature'])),
  });
}
{
  const { default: Anthropic } = require('@anthropic-ai/sdk');
  const client = new Anthropic({ apiKey: 'sk-ant-' + secret() });
  add(standard('Anthropic', 'anthropic', '@anthropic-ai/sdk', 'webhook-', (key, req) => accepts(() => { client.beta.webhooks.unwrap(req.body, { headers: lower(req.headers), key }); })));
}
{
  const { WebhookEventVerifier } = require('@onfido/api');
  const key = secret();
  const verifier = new WebhookEventVerifier(key);
  add({
    vendor: 'Onfido', provider: 'onfido', sdk: '@onfido/api', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ payload: { resource_type: 'check', action: 'check.completed', object: { id, status: 'complete', completed_at_iso8601: new Date().toISOString(), note: text } } }),
    rule: header('X-SHA2-Signature', (req) => hmac('sha256', key, req.body, 'hex')),
    verify: (req) => accepts(() => { verifier.readPayload(req.body, lower(req.headers)['x-sha2-signature']); }),
  });
}
{
  const jwt = require('atlassian-jwt');
  const key = secret();
  // Values of one name are sorted as they are encoded, says the documentation; the library sorts them before.
  const hash = (req) => jwt.createQueryStringHash(jwt.fromMethodAndUrl('POST', new URL(req.url).pathname + new URL(req.url).search), false, 'https://hooks.example.com');
  add({
    vendor: 'Jira (Connect)', provider: 'jira-connect', sdk: 'atlassian-jwt', secret: key, unbound: true,
    url: 'https://hooks.example.com/in/jira-connect?b=2&a=%C3%A9%20x&c=2&c=1&tenant=%2B%2A~&jwt=left-out', unsigned: (id) => ({ ...json, 'X-Atlassian-Webhook-Identifier': id }),
    body: (text, id) => JSON.stringify({ webhookEvent: 'jira:issue_updated', timestamp: Date.now(), issue: { id, key: text } }),
    sign: header('Authorization', (req) => 'JWT ' + jwt.encodeSymmetric({ iss: 'client-key', iat: seconds(), exp: seconds() + 180, qsh: hash(req) }, key)),
    verify: (req) => accepts(() => jwt.decodeSymmetric(lower(req.headers).authorization.slice('JWT '.length), key, jwt.SymmetricAlgorithm.HS256).qsh === hash(req)),
  });
}
