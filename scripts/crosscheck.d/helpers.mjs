// What the vendors' files share: encodings, and makers of vendors whose signatures have
// one shape.
import { createHmac, randomBytes } from 'node:crypto';

export const hmac = (algorithm, key, message, encoding) => createHmac(algorithm, key).update(message).digest(encoding);
export const seconds = () => Math.floor(Date.now() / 1000);
export const secret = (n = 24) => randomBytes(n).toString('hex');
export const lower = (headers) => Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
export const json = { 'Content-Type': 'application/json' };
export const accepts = (f) => { try { const answer = f(); return answer !== false; } catch { return false; } };
export const settles = async (f) => { try { return (await f()) !== false; } catch { return false; } };

// standard makes a vendor of the Standard Webhooks family. Its secret is whsec_ and
// base64, unless another one is given with the bytes that it signs with.
export function standard(vendor, provider, sdk, prefix, verify, sign, given) {
  const { key, bytes } = given ?? made();
  const names = { id: prefix + 'id', at: prefix + 'timestamp', signature: prefix + 'signature' };
  return {
    vendor, provider, sdk, secret: key,
    unsigned: () => ({ ...json }),
    sign: sign && ((req) => {
      const id = 'msg_' + secret(8);
      const at = new Date();
      return { ...req, headers: { ...req.headers, [names.id]: id, [names.at]: String(Math.floor(at / 1000)), [names.signature]: sign(key, id, at, req.body) } };
    }),
    rule: (req) => {
      const id = 'msg_' + secret(8);
      const at = seconds();
      const mac = hmac('sha256', bytes, `${id}.${at}.${req.body}`, 'base64');
      return { ...req, headers: { ...req.headers, [names.id]: id, [names.at]: String(at), [names.signature]: 'v1,' + mac } };
    },
    verify: (req) => verify(key, req),
  };
}

function made() {
  const bytes = randomBytes(24);
  return { key: 'whsec_' + bytes.toString('base64'), bytes };
}

// header makes a vendor whose signature is one header over the body.
export function header(name, make) {
  return (req) => ({ ...req, headers: { ...req.headers, [name]: make(req) } });
}
