// Vendors whose library is not in the other files: libraries in Go, which a command built from the
// directory golang asks, and independent implementations.
import { spawnSync } from 'node:child_process';
import { generateKeyPairSync, randomUUID, sign as signWith } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { accepts, header, hmac, json, lower, secret, seconds, settles, standard } from './helpers.mjs';

const require = createRequire(import.meta.url);
const escaped = (value) => JSON.stringify(value).replace(/[\u007f-\uffff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));

export const others = [];
const add = (vendor) => others.push(vendor);

const modules = Object.fromEntries(readFileSync(new URL('golang/go.mod', import.meta.url), 'utf8').split('\n').map((line) => line.trim().split(' ')).filter((line) => line.length > 1));

// golang makes the verification of a library in Go.
const golang = (library, key) => (req) => spawnSync(process.env.CROSSCHECK_GOLANG, [library], { input: JSON.stringify({ ...req, secret: key }), encoding: 'utf8' }).status === 0;
const go = (sdk, library, vendor) => add({ ...vendor, sdk, version: modules[sdk], verify: golang(library, vendor.secret) });

{
  const key = secret();
  go('github.com/mailgun/mailgun-go/v4', 'mailgun-go', {
    vendor: 'Mailgun (Go)', provider: 'mailgun', secret: key, unsigned: () => ({ ...json }), unbound: true,
    body: (text, id) => {
      const at = String(seconds());
      const token = secret(25);
      return JSON.stringify({ signature: { timestamp: at, token, signature: hmac('sha256', key, at + token, 'hex') }, 'event-data': { id, event: 'delivered', timestamp: seconds(), message: { headers: { subject: text } } } });
    },
    cannotSign: 'the signature is inside the body that is asked about',
    rule: (req) => req,
  });
}
{
  const key = secret();
  go('github.com/mailgun/mailgun-go/v4', 'mailgun-go-routes', {
    vendor: 'Mailgun routes (Go)', provider: 'mailgun-routes', secret: key, unsigned: () => ({ 'Content-Type': 'application/x-www-form-urlencoded' }), unbound: true,
    body: (text, id) => {
      const at = String(seconds());
      const token = secret(25);
      return new URLSearchParams({ recipient: 'in@example.com', sender: 'a@example.com', subject: text, 'Message-Id': `<${id}@example.com>`, timestamp: at, token, signature: hmac('sha256', key, at + token, 'hex') }).toString();
    },
    cannotSign: 'the signature is inside the body that is asked about',
    rule: (req) => req,
  });
}
{
  const key = secret();
  go('github.com/PagerDuty/go-pagerduty', 'go-pagerduty', {
    vendor: 'PagerDuty (Go)', provider: 'pagerduty', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ event: { id, event_type: 'incident.triggered', resource_type: 'incident', occurred_at: new Date().toISOString(), data: { id: 'PGR0VU2', title: text } } }),
    rule: header('X-PagerDuty-Signature', (req) => 'v1=' + hmac('sha256', key, req.body, 'hex')),
  });
}
for (const [sdk, library] of [['code.gitea.io/sdk/gitea', 'gitea-sdk'], ['github.com/go-playground/webhooks/v6', 'go-playground-gitea']]) {
  const key = secret();
  const independent = library !== 'gitea-sdk';
  go(sdk, library, {
    vendor: independent ? 'Gitea (go-playground)' : 'Gitea (Go)', provider: 'gitea', secret: key, independent,
    unsigned: (id) => ({ ...json, 'X-Gitea-Delivery': id, 'X-Gitea-Event': 'push' }),
    body: (text) => JSON.stringify({ ref: 'refs/heads/main', before: '0', after: '1', commits: [{ id: '1', message: text }] }),
    rule: header('X-Gitea-Signature', (req) => hmac('sha256', key, req.body, 'hex')),
  });
}
{
  const key = secret();
  go('code.gitea.io/sdk/gitea', 'gitea-sdk', {
    vendor: 'Forgejo (by Gitea\'s library)', provider: 'forgejo', secret: key, independent: true,
    unsigned: (id) => ({ ...json, 'X-Gitea-Delivery': id, 'X-Gitea-Event': 'push' }), cannotSign: 'the library reads only the header that Gitea and Forgejo share',
    body: (text) => JSON.stringify({ ref: 'refs/heads/main', before: '0', after: '1', commits: [{ id: '1', message: text }] }),
    rule: header('X-Gitea-Signature', (req) => hmac('sha256', key, req.body, 'hex')),
  });
}
{
  const key = secret();
  go('github.com/go-playground/webhooks/v6', 'go-playground-gitlab', {
    vendor: 'GitLab (go-playground)', provider: 'gitlab', secret: key, independent: true, unbound: true,
    unsigned: (id) => ({ ...json, 'X-Gitlab-Event': 'Push Hook', 'X-Gitlab-Event-UUID': id, 'X-Gitlab-Webhook-UUID': id }),
    body: (text) => JSON.stringify({ object_kind: 'push', before: '0', after: '1', project_id: 15, user_name: text }),
    rule: header('X-Gitlab-Token', () => key),
  });
  go('github.com/go-playground/webhooks/v6', 'go-playground-bitbucket-server', {
    vendor: 'Bitbucket Data Center (go-playground)', provider: 'bitbucket-data-center', secret: key, independent: true,
    unsigned: (id) => ({ ...json, 'X-Event-Key': 'repo:refs_changed', 'X-Request-Id': id }),
    body: (text) => JSON.stringify({ eventKey: 'repo:refs_changed', date: '2026-11-24T10:00:00+0000', actor: { name: text } }),
    rule: header('X-Hub-Signature', (req) => 'sha256=' + hmac('sha256', key, req.body, 'hex')),
  });
  go('github.com/go-playground/webhooks/v6', 'go-playground-azuredevops', {
    vendor: 'Azure DevOps (go-playground)', provider: 'azure-devops', secret: 'hooks:' + key, other: 'hooks:another', independent: true, unbound: true, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ subscriptionId: randomUUID(), notificationId: 1, id, eventType: 'build.complete', publisherId: 'tfs', createdDate: '2026-11-24T10:00:00Z', message: { text }, resource: { id: 2 } }),
    rule: header('Authorization', () => 'Basic ' + Buffer.from('hooks:' + key).toString('base64')),
  });
}
for (const signed of [true, false]) {
  const key = secret();
  go('github.com/buildkite/go-buildkite/v4', 'go-buildkite', {
    vendor: signed ? 'Buildkite (Go)' : 'Buildkite (Go, token)', provider: signed ? 'buildkite' : 'buildkite-token', secret: key, unbound: !signed,
    unsigned: () => ({ ...json, 'X-Buildkite-Event': 'build.finished' }),
    body: (text, id) => JSON.stringify({ event: 'build.finished', build: { id, message: text } }),
    rule: (req) => {
      const at = seconds();
      const proof = signed ? { 'X-Buildkite-Signature': `timestamp=${at},signature=${hmac('sha256', key, `${at}.${req.body}`, 'hex')}` } : { 'X-Buildkite-Token': key };
      return { ...req, headers: { ...req.headers, ...proof } };
    },
  });
}
{
  const key = secret(16);
  go('github.com/slack-go/slack', 'slack-go', {
    vendor: 'Slack (slack-go)', provider: 'slack', secret: key, independent: true, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ type: 'event_callback', event_id: 'Ev' + id, event_time: seconds(), team_id: 'T1', event: { type: 'message', text } }),
    rule: (req) => {
      const at = String(seconds());
      return { ...req, headers: { ...req.headers, 'X-Slack-Request-Timestamp': at, 'X-Slack-Signature': 'v0=' + hmac('sha256', key, `v0:${at}:${req.body}`, 'hex') } };
    },
  });
}
{
  const { WebhookSignatureValidator } = require('mercadopago');
  const key = secret();
  const dataID = '123456789';
  add({
    vendor: 'Mercado Pago', provider: 'mercado-pago', sdk: 'mercadopago', secret: key, unbound: true, url: `https://hooks.example.com/in/mercado-pago?data.id=${dataID}&type=payment`,
    unsigned: (id) => ({ ...json, 'x-request-id': id }),
    body: (text, id) => JSON.stringify({ id, action: 'payment.updated', type: 'payment', date_created: new Date().toISOString(), data: { id: dataID }, note: text }),
    rule: (req) => {
      const at = String(Date.now());
      const mac = hmac('sha256', key, `id:${dataID};request-id:${req.headers['x-request-id']};ts:${at};`, 'hex');
      return { ...req, headers: { ...req.headers, 'x-signature': `ts=${at},v1=${mac}` } };
    },
    verify: (req) => accepts(() => { WebhookSignatureValidator.validate({ xSignature: lower(req.headers)['x-signature'], xRequestId: lower(req.headers)['x-request-id'], dataId: new URL(req.url).searchParams.get('data.id'), secret: key }); }),
  });
}
{
  const { Bot, webhookCallback } = require('grammy');
  const key = secret();
  add({
    vendor: 'Telegram (grammY)', provider: 'telegram', sdk: 'grammy', secret: key, independent: true, unbound: true, unsigned: () => ({ ...json }),
    body: (text) => JSON.stringify({ update_id: 10001, message: { message_id: 1, date: seconds(), chat: { id: 1, type: 'private' }, text } }),
    rule: header('X-Telegram-Bot-Api-Secret-Token', () => key),
    verify: (req) => settles(async () => {
      const bot = new Bot('1:token', { botInfo: { id: 1, is_bot: true, first_name: 'bot', username: 'bot' } });
      let handled = false;
      bot.use(() => { handled = true; });
      await webhookCallback(bot, 'std/http', { secretToken: key })(new Request(req.url, { method: 'POST', headers: req.headers, body: req.body }));
      return handled;
    }),
  });
}
{
  const { WhatsAppAPI } = await import('whatsapp-api-js');
  const key = secret(16);
  const api = new WhatsAppAPI({ v: 'v24.0', token: 't', appSecret: key, webhookVerifyToken: 'v', ponyfill: { fetch, subtle: globalThis.crypto.subtle } });
  add({
    vendor: 'WhatsApp (whatsapp-api-js)', provider: 'whatsapp', sdk: 'whatsapp-api-js', secret: key, independent: true, unsigned: () => ({ ...json }),
    // Meta escapes what is not ASCII, and the library escapes it again before it verifies.
    body: (text, id) => escaped({ object: 'whatsapp_business_account', entry: [{ id: '8856996819413533', changes: [{ field: 'messages', value: { messaging_product: 'whatsapp', messages: [{ id: 'wamid.' + id, from: '16315551234', timestamp: String(seconds()), type: 'text', text: { body: text } }] } }] }] }),
    rule: header('X-Hub-Signature-256', (req) => 'sha256=' + hmac('sha256', key, req.body, 'hex')),
    verify: (req) => settles(() => api.verifyRequestSignature(req.body, lower(req.headers)['x-hub-signature-256'])),
  });
}
{
  const { SignatureValidator } = require('mollie-api-typescript/utils/webhooks/signature_validator.js');
  const key = secret(16);
  const validator = new SignatureValidator(key);
  add({
    vendor: 'Mollie', provider: 'mollie', sdk: 'mollie-api-typescript', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ resource: 'event', id: 'event_' + id, type: 'payment-link.paid', entityId: 'pl_1', createdAt: new Date().toISOString(), note: text }),
    sign: async (req) => ({ ...req, headers: { ...req.headers, 'X-Mollie-Signature': 'sha256=' + await SignatureValidator.createSignature(req.body, key) } }),
    verify: (req) => settles(() => validator.validatePayload(req.body, lower(req.headers)['x-mollie-signature'])),
  });
}
{
  const { validateSignature } = require('twitter-autohook');
  const key = secret();
  add({
    vendor: 'X (Twitter\'s autohook)', provider: 'x', sdk: 'twitter-autohook', secret: key, unsigned: () => ({ ...json }),
    body: (text, id) => JSON.stringify({ for_user_id: '2244994945', tweet_create_events: [{ id_str: id, created_at: 'Tue Nov 24 10:00:00 +0000 2026', text }] }),
    rule: header('x-twitter-webhooks-signature', (req) => 'sha256=' + hmac('sha256', key, req.body, 'base64')),
    verify: (req) => accepts(() => validateSignature(lower(req.headers), { consumer_secret: key }, req.body)),
  });
}
// Senders whose documentation says that a library of another project verifies their requests, and
// Loops, which only describes that form.
for (const [vendor, provider, sdk, prefix, independent] of [
  ['incident.io', 'incident-io', 'svix', 'webhook-'], ['Recall.ai', 'recall-ai', 'svix', 'webhook-'], ['Stytch', 'stytch', 'svix', 'svix-'],
  ['Render', 'render', 'standardwebhooks', 'webhook-'], ['Polar', 'polar', 'standardwebhooks', 'webhook-'], ['GitLab (signed)', 'gitlab-signed', 'standardwebhooks', 'webhook-'],
  ['Loops', 'loops', 'standardwebhooks', 'webhook-', true],
]) {
  const { Webhook } = require(sdk);
  add({ ...standard(vendor, provider, sdk, prefix, (key, req) => accepts(() => new Webhook(key).verify(req.body, lower(req.headers))), (key, id, at, body) => new Webhook(key).sign(id, at, body)), independent });
}
{
  const { EventWebhook } = require('@sendgrid/eventwebhook');
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
  const library = new EventWebhook();
  const boundary = 'xYzZY';
  add({
    vendor: 'SendGrid (inbound parse)', provider: 'sendgrid-inbound-parse', sdk: '@sendgrid/eventwebhook', secret: key, other, privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    unsigned: () => ({ 'Content-Type': 'multipart/form-data; boundary=' + boundary }),
    body: (text) => ['to', 'subject', 'text'].map((name) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${text}\r\n`).join('') + `--${boundary}--\r\n`,
    tamper: (body) => body.replace('"subject"', '"subjects"'),
    rule: (req) => {
      const at = String(seconds());
      return { ...req, headers: { ...req.headers, 'X-Twilio-Email-Event-Webhook-Timestamp': at, 'X-Twilio-Email-Event-Webhook-Signature': signWith('sha256', Buffer.from(at + req.body), privateKey).toString('base64') } };
    },
    verify: (req) => accepts(() => library.verifySignature(library.convertPublicKeyToECDSA(key), req.body, lower(req.headers)['x-twilio-email-event-webhook-signature'], lower(req.headers)['x-twilio-email-event-webhook-timestamp'])),
  });
}
{
  const { verifyKey } = require('discord-interactions');
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const hex = (key) => key.export({ type: 'spki', format: 'der' }).subarray(-32).toString('hex');
  const key = hex(publicKey);
  add({
    vendor: 'Discord (interactions)', provider: 'discord-interactions', sdk: 'discord-interactions', secret: key, other: hex(generateKeyPairSync('ed25519').publicKey), privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    unsigned: () => ({ ...json }),
    body: (text) => JSON.stringify({ id: String(Date.now()), application_id: '1', type: 2, data: { name: text } }),
    rule: (req) => {
      const at = String(seconds());
      return { ...req, headers: { ...req.headers, 'X-Signature-Timestamp': at, 'X-Signature-Ed25519': signWith(null, Buffer.from(at + req.body), privateKey).toString('hex') } };
    },
    verify: (req) => settles(() => verifyKey(req.body, lower(req.headers)['x-signature-ed25519'], lower(req.headers)['x-signature-timestamp'], key)),
  });
}
