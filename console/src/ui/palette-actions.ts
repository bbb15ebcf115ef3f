// What the command palette can do besides opening pages.

import { type QueryClient, useQueryClient } from '@tanstack/react-query';
import { ApiError, api } from '../api/client';
import { useMe, usePersonas, useServers } from '../api/queries';
import { session } from '../api/session';
import { gatewayUrl } from '../lib/place';
import { copyText } from './basic';
import type { IconName } from './icons';
import { setTheme } from './theme';
import { toast } from './toast';

export interface Command {
  id: string;
  icon: IconName;
  label: string;
  kind: string;
  run: () => void;
}

/** The form of the ids of calls. */
const CALL_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

async function act(client: QueryClient, server: string, action: 'connect' | 'restart') {
  try {
    const { state } = (await api.post('/servers/{name}/{action}', { params: { name: server, action } })) as { state?: string };
    toast(state === 'connected' ? `${server} is up` : `${server} is still ${state?.replaceAll('_', ' ') ?? 'down'}`);
  } catch (error) {
    toast(ApiError.of(error).message);
  }
  void client.invalidateQueries({ queryKey: ['servers'] });
}

async function reload(client: QueryClient) {
  await api.post('/servers/reload', {}).then(() => toast('Configuration reloaded'), (error: unknown) => toast(ApiError.of(error).message));
  void client.invalidateQueries();
}

/** The actions for the text of the palette. Those that concern one server or persona appear when the text names them. */
export function useActions(query: string, go: (path: string) => void): Command[] {
  const client = useQueryClient();
  const me = useMe();
  const servers = useServers();
  const personas = usePersonas();
  const acts: Command[] = [
    { id: 'theme-light', icon: 'sun', label: 'Use the light theme', kind: 'Action', run: () => setTheme('light') },
    { id: 'theme-dark', icon: 'moon', label: 'Use the dark theme', kind: 'Action', run: () => setTheme('dark') },
    { id: 'endpoint', icon: 'copy', label: 'Copy the MCP endpoint', kind: 'Action', run: () => void copyText(`${gatewayUrl}/mcp`, 'the MCP endpoint') },
    { id: 'audit', icon: 'activity', label: 'Verify the audit log', kind: 'Page', run: () => go('/activity/audit') },
    { id: 'dead', icon: 'activity', label: 'Dead letters', kind: 'Page', run: () => go('/activity/dead') },
  ];
  if (CALL_ID.test(query)) acts.unshift({ id: `call ${query}`, icon: 'activity', label: `Open the call ${query}`, kind: 'Call', run: () => go(`/activity/calls/${query.toLowerCase()}`) });
  if (me.data?.admin) {
    acts.push({ id: 'tokens', icon: 'settings', label: 'Create a token', kind: 'Page', run: () => go('/settings/tokens') });
    acts.push({ id: 'reload', icon: 'refresh', label: 'Reload the configuration', kind: 'Action', run: () => void reload(client) });
  }
  if (query === '') return acts;
  if (me.data?.admin) {
    for (const { name, state } of servers.data?.servers ?? []) {
      if (['error', 'disconnected'].includes(state)) acts.push({ id: `connect ${name}`, icon: 'refresh', label: `Reconnect ${name}`, kind: 'Action', run: () => void act(client, name, 'connect') });
      if (state === 'connected') acts.push({ id: `restart ${name}`, icon: 'refresh', label: `Restart ${name}`, kind: 'Action', run: () => void act(client, name, 'restart') });
    }
  }
  for (const { name } of personas.data?.personas ?? []) acts.push({ id: `persona ${name}`, icon: 'user', label: `See as ${name}`, kind: 'Action', run: () => session.setPersona(name) });
  if (session.get().persona !== null) acts.push({ id: 'persona', icon: 'user', label: 'Leave the persona', kind: 'Action', run: () => session.setPersona(null) });
  return acts;
}
