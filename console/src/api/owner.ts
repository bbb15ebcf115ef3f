// Whether the owner of a gateway in `local` mode opened this browser with `toolbooth console`. Only then can the page trust
// servers of project files. The proof is a cookie that scripts cannot read.

import { useQuery } from '@tanstack/react-query';
import { toast } from '../ui/toast';
import { ApiError, fetchJson } from './client';
import { queryClient } from './queries';

interface OwnerAnswer {
  owner: boolean;
}
const MARK = '#owner=';

const ask = () => fetchJson<OwnerAnswer>('GET', '/console/owner');

async function exchange(code: string): Promise<void> {
  try {
    await fetchJson<OwnerAnswer>('POST', '/console/owner', { body: { code } });
  } catch (error) {
    // The same address may have been opened a second time.
    const answer = await ask().catch(() => null);
    if (!answer?.owner) toast(ApiError.of(error).message);
  }
}

let exchanging: Promise<void> | null = null;

/** Uses the code in the address that `toolbooth console` opens, and removes it from the address bar and the history. */
function takeCode() {
  if (!location.hash.startsWith(MARK)) return;
  const code = location.hash.slice(MARK.length);
  history.replaceState(null, '', location.pathname + location.search);
  exchanging = exchange(code).finally(() => void queryClient.invalidateQueries({ queryKey: ['owner'] }));
}

/** Uses the code in the address of this page, and in one that is pasted into its address bar later. */
export function takeOwnerCode() {
  takeCode();
  addEventListener('hashchange', takeCode);
}

/** Whether this browser is the owner's. */
export const useOwner = () =>
  useQuery({
    queryKey: ['owner'],
    queryFn: async () => {
      await exchanging;
      return (await ask()).owner;
    },
  });
