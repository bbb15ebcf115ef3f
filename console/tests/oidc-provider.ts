// An OpenID Connect provider for the tests. It has a page of its own, so that the browser really comes back from another
// site: `localhost` is another site than `127.0.0.1`.

import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { createServer } from 'node:http';

export interface OidcProvider {
  issuer: string;
  stop(): void;
}

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

export async function startProvider(user: string, groups: string[]): Promise<OidcProvider> {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const requests = new Map<string, URLSearchParams>();
  let issuer = '';
  const idToken = (request: URLSearchParams) => {
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: issuer, aud: request.get('client_id'), sub: user, groups, nonce: request.get('nonce'), iat: now, exp: now + 300 };
    const message = `${encoded({ alg: 'ES256', typ: 'JWT', kid: 'one' })}.${encoded(claims)}`;
    return `${message}.${sign('sha256', Buffer.from(message), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', issuer);
    const json = (status: number, value: object) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    const html = (text: string) => response.writeHead(200, { 'content-type': 'text/html' }).end(`<!doctype html><title>Provider</title>${text}`);
    if (url.pathname === '/.well-known/openid-configuration') {
      json(200, { issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token`, jwks_uri: `${issuer}/keys`, end_session_endpoint: `${issuer}/end` });
    } else if (url.pathname === '/keys') {
      json(200, { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'one', use: 'sig' }] });
    } else if (url.pathname === '/authorize') {
      const code = `code-${requests.size}`;
      requests.set(code, url.searchParams);
      const target = new URL(url.searchParams.get('redirect_uri') ?? '');
      target.searchParams.set('code', code);
      target.searchParams.set('state', url.searchParams.get('state') ?? '');
      html(`<h1>Who are you?</h1><a href="${target.href.replaceAll('&', '&amp;')}">Continue as ${user}</a>`);
    } else if (url.pathname === '/end') {
      html(`<h1>Signed out</h1><a href="${url.searchParams.get('post_logout_redirect_uri') ?? ''}">Back</a>`);
    } else if (url.pathname === '/token') {
      let body = '';
      request.on('data', (part: Buffer) => { body += part.toString(); });
      request.on('end', () => {
        const form = new URLSearchParams(body);
        const asked = requests.get(form.get('code') ?? '');
        const proof = createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url');
        requests.delete(form.get('code') ?? '');
        if (asked?.get('code_challenge') === proof && asked.get('redirect_uri') === form.get('redirect_uri')) json(200, { id_token: idToken(asked), token_type: 'Bearer', access_token: 'unused' });
        else json(400, { error: 'invalid_grant' });
      });
    } else {
      json(404, {});
    }
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  issuer = `http://localhost:${(server.address() as { port: number }).port}`;
  return { issuer, stop: () => { server.closeAllConnections(); server.close(); } };
}
