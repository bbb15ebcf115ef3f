// Buttons that repair a server, or load the configuration again.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import { ApiError, api } from '../api/client';
import { type Server, useMe } from '../api/queries';
import { unsetVariable } from '../lib/config-place';
import { Button } from '../ui/basic';
import { toast } from '../ui/toast';
import { beginSignIn } from './sign-in-server';
import { TrustButton } from './trust';

export function ReloadButton() {
  const client = useQueryClient();
  const reload = useMutation({
    mutationFn: () => api.post('/servers/reload', {}),
    onSuccess: () => { toast('Configuration reloaded'); void client.invalidateQueries(); },
    onError: (error) => { toast(ApiError.of(error).message); void client.invalidateQueries({ queryKey: ['ready'] }); },
  });
  return <Button icon="refresh" busy={reload.isPending} onClick={() => reload.mutate()}>Reload</Button>;
}

/** The button that repairs a server, by its state. */
export function FixButton({ server }: { server: Server }) {
  const me = useMe();
  const client = useQueryClient();
  const act = useMutation({
    mutationFn: (action: string) => api.post('/servers/{name}/{action}', { params: { name: server.name, action } }),
    onSuccess: (answer) => {
      const { state } = answer as { state?: string };
      toast(state === 'connected' ? `${server.name} is up` : `${server.name} is still ${state?.replaceAll('_', ' ') ?? 'down'}`);
    },
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => void client.invalidateQueries({ queryKey: ['servers'] }),
  });
  const signIn = useMutation({ mutationFn: () => beginSignIn(server.name), onError: (error) => toast(ApiError.of(error).message) });
  if (server.own_key && (!server.own_key.set || server.own_key.refused)) return <Link className="button primary" href="/settings/keys">Set your key</Link>;
  if (!me.data?.admin) return <span className="muted small">Ask an administrator</span>;
  switch (server.state) {
    case 'error':
      return <Button icon="refresh" busy={act.isPending} onClick={() => act.mutate('connect')}>Reconnect</Button>;
    case 'disconnected':
      return <Button busy={act.isPending} onClick={() => act.mutate('connect')}>Connect</Button>;
    case 'needs_auth':
      return <Button look="primary" busy={signIn.isPending} onClick={() => signIn.mutate()}>Sign in</Button>;
    case 'needs_trust':
      return <TrustButton subject={{ server: server.name }} />;
    case 'config_error':
      return unsetVariable(server) === null ? <ReloadButton /> : <Link className="button primary" href={`/servers/${encodeURIComponent(server.name)}`}>How to set it</Link>;
    default:
      return null;
  }
}
