// The events of the page of events: the latest ones that the gateway keeps, and those that arrive.

import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useState } from 'react';
import { api } from './client';
import { type GatewayEvent, stream } from './events';

const MAX_LIVE = 5000;
const MAX_RECENT = 1000;
/** Events that arrive are shown together, so that a busy gateway does not keep the page busy. */
const COLLECT_MS = 400;

const numberOf = (event: GatewayEvent) => Number(event.id?.split('-')[1] ?? 0);

/** Newest first, each event once. */
function merged(live: GatewayEvent[], recent: GatewayEvent[]): GatewayEvent[] {
  const known = new Map<string, GatewayEvent>();
  for (const event of [...live, ...recent]) if (event.id) known.set(event.id, event);
  return [...known.values()].sort((left, right) => right.at_ms - left.at_ms || numberOf(right) - numberOf(left));
}

/** The events, newest first. After a lost connection the stream resumes where it ended; the list is loaded again too. */
export function useEventFeed() {
  const [live, setLive] = useState<GatewayEvent[]>([]);
  const recent = useQuery({
    queryKey: ['event-feed'],
    queryFn: async ({ signal }) => (await api.get('/events/recent', { query: { limit: MAX_RECENT }, signal })).events as unknown as GatewayEvent[],
    // A kept answer may be older than the first event that this page receives.
    staleTime: 0,
    gcTime: 0,
  });
  useEffect(() => {
    let arrived: GatewayEvent[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const unsubscribe = stream.onEvent((event) => {
      if (!event.id) return;
      arrived.push(event);
      timer ??= setTimeout(() => {
        const collected = arrived.reverse();
        arrived = [];
        timer = undefined;
        setLive((before) => [...collected, ...before].slice(0, MAX_LIVE));
      }, COLLECT_MS);
    });
    return () => {
      clearTimeout(timer);
      unsubscribe();
    };
  }, []);
  const all = useMemo(() => merged(live, recent.data ?? []), [live, recent.data]);
  return { all, isLoaded: recent.data !== undefined, error: recent.error, refetch: recent.refetch };
}
