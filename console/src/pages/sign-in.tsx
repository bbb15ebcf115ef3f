// Asks for a token. The gateway has no passwords: tokens are created by an administrator or an identity provider.

import { useState } from 'react';
import { ApiError, send } from '../api/client';
import { session } from '../api/session';
import { consolePath } from '../lib/place';
import { Button, CodeBox, Note } from '../ui/basic';

export function SignIn({ rejected }: { rejected: boolean }) {
  const [token, setToken] = useState('');
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      await send('GET', '/me', { headers: { authorization: `Bearer ${token.trim()}` } });
      session.signIn(token);
    } catch (problem) {
      setError(ApiError.of(problem));
    } finally {
      setBusy(false);
    }
  };
  return (
    <div className="center">
      <form className="card sign-in" onSubmit={(event) => { event.preventDefault(); void submit(); }}>
        <div className="row"><img src={`${consolePath}/favicon.svg`} alt="" width="28" height="28" /><h1>Sign in to Toolbooth</h1></div>
        {rejected && !error && <Note tone="warn">Your token is no longer accepted. It may have expired or been revoked.</Note>}
        <div className="field">
          <label htmlFor="token">Token</label>
          <input id="token" className="input mono" type="password" autoComplete="off" autoFocus spellCheck={false} value={token} onChange={(event) => setToken(event.target.value)} aria-invalid={error !== null} aria-describedby="token-about" />
          <p className="about" id="token-about">Kept for this tab until you close it. It is sent only to this gateway.</p>
        </div>
        {error && <div role="alert"><Note tone="bad"><p className="strong">{error.message}</p>{error.hint && <p>{error.hint}</p>}</Note></div>}
        <Button look="primary" type="submit" busy={busy} disabled={token.trim() === ''}>Sign in</Button>
        <details>
          <summary className="muted">Where do I get a token?</summary>
          <div className="stack tight" style={{ marginTop: 8 }}>
            <p>An administrator creates one on the machine of the gateway:</p>
            <CodeBox what="command" text="toolbooth tokens create --user NAME --expires 90d" />
            <p className="muted">If your gateway uses an identity provider, paste an access token of that provider.</p>
          </div>
        </details>
      </form>
    </div>
  );
}
