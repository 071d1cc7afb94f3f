// Asks the vendors' own libraries and Oncegate about the same fresh requests.
// Usage: node main.mjs PATH-TO-ONCEGATE [--vectors DIRECTORY] [vendor ...]
import { spawnSync } from 'node:child_process';
import { createPrivateKey, generateKeyPairSync, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { vendors } from './vendors.mjs';

const [binary, ...rest] = process.argv.slice(2);
const directory = rest[0] === '--vectors' ? rest[1] : '';
const only = directory ? rest.slice(2) : rest;
const texts = ['plain', 'Zoë & <b>"quoted"</b> / \\ 日本 😀', 'é\u0001\u2028 '.repeat(300)];

function oncegate(args, vendor, input, env = {}) {
  const settings = Object.entries(vendor.settings ?? {}).flatMap(([name, value]) => ['--setting', `${name}=${value}`]);
  const run = spawnSync(binary, ['providers', ...args, vendor.provider, '--request', '-', '--secret-env', 'CROSSCHECK_SECRET', ...settings], {
    input: JSON.stringify(input), encoding: 'utf8', env: { PATH: process.env.PATH, CROSSCHECK_SECRET: vendor.secret, ...env },
  });
  return { code: run.status, said: (run.stdout + run.stderr).trim() };
}

const weVerify = (vendor, req) => oncegate(['verify'], vendor, req);

function weSign(vendor, req) {
  const secret = vendor.privateKey ?? vendor.secret;
  const run = oncegate(['sign', '--format', 'json'], vendor, req, { CROSSCHECK_SECRET: secret });
  if (run.code !== 0) return { why: run.said };
  const signed = JSON.parse(run.said);
  return { req: { ...signed, body: signed.body ?? '' } };
}

function unsigned(vendor, text) {
  const id = randomBytes(8).toString('hex');
  const body = vendor.body ? vendor.body(text, id) : JSON.stringify({ id: 'evt_' + id, type: 'crosscheck.made', object: 'event', created: Math.floor(Date.now() / 1000), created_at: new Date().toISOString(), data: { id: 'd_1', object: { id: 'o_1' }, text } });
  const url = vendor.at ? vendor.at(body) : vendor.url ?? `https://hooks.example.com/in/${vendor.provider}`;
  return { id, req: { method: 'POST', url, headers: vendor.unsigned(id), body } };
}

const tampered = (vendor, req) => ({ ...req, body: vendor.tamper ? vendor.tamper(req.body) : req.body.replace('"', '"x') });

// keep writes the request that a library signed or accepted into the vectors of its provider, as
// proof that somebody else agrees with the entry.
function keep(vendor, req, version) {
  const name = `${vendor.sdk}@${version.replace(/^v/, '')}`;
  const vector = {
    case: 'crosscheck-' + vendor.vendor.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/-$/, ''), origin: 'computed',
    source: vendor.sign ? `signed with ${name} by scripts/crosscheck` : `accepted by ${name} in scripts/crosscheck; signed by the documented rule`,
    proved_by: vendor.independent ? 'third-party' : 'library', kind: 'verify', secret: vendor.secret,
    ...(vendor.settings && { settings: Object.fromEntries(Object.entries(vendor.settings).map(([key, value]) => [key, [value]])) }),
    method: 'POST', url: req.url, headers: req.headers, body: req.body, valid: true, now: Math.floor(Date.now() / 1000),
  };
  const file = `${directory}/${vendor.provider}/vectors.json`;
  const vectors = JSON.parse(readFileSync(file, 'utf8')).filter((other) => other.case !== vector.case);
  const text = JSON.stringify([...vectors, vector], null, 1).replace(/[\u007f-\uffff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
  writeFileSync(file, text + '\n');
}

async function theySign(vendor, version) {
  for (const text of texts) {
    const { id, req } = unsigned(vendor, text);
    const signed = await (vendor.sign ?? vendor.rule)(req, id);
    if (!vendor.sign && !(await vendor.verify(signed))) return 'their library does not accept what the rule here signs';
    const ours = weVerify(vendor, signed);
    if (ours.code !== 0) return ours.said;
    if (text === texts[0] && directory) keep(vendor, signed, version);
    if (text !== texts[0]) continue; // a refusal is diagnosed, which takes its time
    if (!vendor.unbound && weVerify(vendor, tampered(vendor, signed)).code !== 1) return 'we accept a changed body';
    const other = { ...vendor, secret: vendor.other ?? changed(vendor.secret) };
    if (weVerify(other, signed).code === 0) return 'we accept another secret';
  }
  return '';
}

// changed is a secret of the same form that is another.
function changed(secret) {
  const i = Math.floor(secret.length / 2);
  return secret.slice(0, i) + (secret[i] === '1' ? '2' : '1') + secret.slice(i + 1);
}

async function theyVerify(vendor) {
  if (vendor.cannotSign) return { none: vendor.cannotSign };
  for (const text of texts) {
    const { req } = unsigned(vendor, text);
    const signed = weSign(vendor, req);
    if (signed.why) return { none: signed.why };
    if (!(await vendor.verify(signed.req))) return { differs: 'their library refuses what we sign' };
    if (!vendor.unbound && (await vendor.verify(tampered(vendor, signed.req)))) return { differs: 'their library accepts a changed body' };
    if (text !== texts[0]) continue;
    const foreign = weSign(otherSecret(vendor), req);
    if (foreign.why) return { differs: 'we cannot sign with another secret: ' + foreign.why };
    if (await vendor.verify(foreign.req)) return { differs: 'their library accepts another secret' };
  }
  return {};
}

// otherSecret is the vendor with a secret to sign with that is not its own.
function otherSecret(vendor) {
  if (!vendor.privateKey) return { ...vendor, secret: vendor.other ?? changed(vendor.secret) };
  const type = createPrivateKey(vendor.privateKey).asymmetricKeyType;
  const { privateKey } = generateKeyPairSync(type, { namedCurve: 'P-256', modulusLength: 2048 });
  return { ...vendor, privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }) };
}

const rows = [];
const notes = [];
let differing = 0;
for (const vendor of vendors) {
  if (only.length > 0 && !only.includes(vendor.provider)) continue;
  const version = vendor.version ?? JSON.parse(readFileSync(new URL(`node_modules/${vendor.sdk}/package.json`, import.meta.url), 'utf8')).version;
  const one = await theySign(vendor, version).catch((error) => 'their library fails: ' + error.message);
  const two = await theyVerify(vendor).catch((error) => ({ differs: 'their library fails: ' + error.message }));
  if (one) notes.push(`${vendor.vendor}: they sign: ${one}`);
  if (two.differs) notes.push(`${vendor.vendor}: we sign: ${two.differs}`);
  if (two.none) notes.push(`${vendor.vendor}: we cannot sign: ${two.none}`);
  if (one || two.differs) differing++;
  rows.push([vendor.vendor, `${vendor.sdk}@${version}`, (one ? 'DIFFERS' : 'ok') + (vendor.sign ? '' : ' (by rule)'), two.differs ? 'DIFFERS' : two.none ? '-' : 'ok']);
}
const head = ['vendor', 'library', 'they sign, we verify', 'we sign, they verify'];
const widths = head.map((_, i) => Math.max(...[head, ...rows].map((row) => row[i].length)));
for (const row of [head, ...rows]) console.log(row.map((cell, i) => cell.padEnd(widths[i])).join('  ').trimEnd());
for (const note of notes) console.log(note);
const both = rows.filter((row) => row[3] === 'ok' && row[2].startsWith('ok')).length;
console.log(`${rows.length} ways of ${new Set(rows.map((row) => row[1])).size} libraries, ${rows.length - differing} agree (${both} in both directions), ${differing} differ`);
process.exit(differing > 0 || rows.length === 0 ? 1 : 0);
