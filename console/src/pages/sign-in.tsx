// Signs a user in: at the identity provider, or with a token that is exchanged for a session. The gateway has no passwords:
// tokens are created by an administrator or an identity provider.

import { useState, useSyncExternalStore } from 'react';
import { SignInError, session } from '../api/session';
import { consolePath } from '../lib/place';
import { Button, CodeBox, Note, Prose } from '../ui/basic';

export function SignIn({ ended, mode }: { ended: boolean; mode: string | null }) {
  const { provider } = useSyncExternalStore(session.subscribe, session.get);
  const [token, setToken] = useState('');
  const [error, setError] = useState<SignInError | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      await session.signIn(token);
    } catch (problem) {
      setError(problem instanceof SignInError ? problem : new SignInError(String(problem), null, 0));
    } finally {
      setBusy(false);
    }
  };
  return (
    <div className="center">
      <form className="card sign-in" onSubmit={(event) => { event.preventDefault(); void submit(); }}>
        <div className="row"><img src={`${consolePath}/favicon.svg`} alt="" width="28" height="28" /><h1>Sign in to Toolbooth</h1></div>
        {ended && !error && <Note tone="warn">Your session has ended. It may have expired, or its token was revoked.</Note>}
        {provider && (
          <>
            <Button look="primary" autoFocus onClick={() => session.signInAtProvider()}>Sign in with {provider}</Button>
            <p className="muted small">Or sign in with a token:</p>
          </>
        )}
        <div className="field">
          <label htmlFor="token">Token</label>
          <input id="token" className="input mono" type="password" autoComplete="off" autoFocus={!provider} spellCheck={false} value={token} onChange={(event) => setToken(event.target.value)} aria-invalid={error !== null} aria-describedby="token-about" />
          <p className="about" id="token-about">Sent once, to this gateway. The browser keeps a session cookie instead, for at most a day.</p>
        </div>
        {error && <div role="alert"><Note tone="bad"><p className="strong"><Prose text={error.message} /></p>{error.hint && <p><Prose text={error.hint} /></p>}</Note></div>}
        <Button {...(provider ? {} : { look: 'primary' as const })} type="submit" busy={busy} disabled={token.trim() === ''}>{provider ? 'Sign in with the token' : 'Sign in'}</Button>
        <details>
          <summary className="muted">Where do I get a token?</summary>
          <div className="stack tight" style={{ marginTop: 8 }}>
            {mode === 'jwt' ? <p>Paste an access token of your identity provider.</p> : (
              <>
                <p>An administrator creates one on the machine of the gateway:</p>
                <CodeBox what="command" text="toolbooth tokens create --user NAME --expires 90d" />
              </>
            )}
          </div>
        </details>
      </form>
    </div>
  );
}
