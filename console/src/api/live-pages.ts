// A list of records, newest first, that grows at both ends. New records cost one request for the first page, however many
// older pages are loaded.

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useRef, useState } from 'react';

export interface RecordPage<R> {
  rows: R[];
  /** Where the next older page begins, if there is one. */
  next: number | null;
}

/**
 * The loaded rows with a new first page. Rows below the page stay. If the two have no row in common, rows between them are
 * missing, so only the new page counts.
 */
export function joined<R>(before: RecordPage<R> | undefined, page: RecordPage<R>, keyOf: (row: R) => string): RecordPage<R> {
  if (before === undefined || page.next === null) return page;
  const keys = new Set(page.rows.map(keyOf));
  const last = before.rows.findLastIndex((row) => keys.has(keyOf(row)));
  const older = last < 0 ? [] : before.rows.slice(last + 1);
  return older.length === 0 ? page : { rows: [...page.rows, ...older], next: before.next };
}

interface Records<R> {
  queryKey: unknown[];
  fetchPage: (before: number | undefined, signal?: AbortSignal) => Promise<RecordPage<R>>;
  keyOf: (row: R) => string;
}

export function useRecords<R>({ queryKey, fetchPage, keyOf }: Records<R>) {
  const client = useQueryClient();
  const query = useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      const page = await fetchPage(undefined, signal);
      return joined(client.getQueryData<RecordPage<R>>(queryKey), page, keyOf);
    },
  });
  const isLoading = useRef(false);
  const [moreError, setMoreError] = useState<unknown>(null);
  const next = query.data?.next ?? null;
  const loadMore = useCallback(async () => {
    if (isLoading.current || next === null) return;
    isLoading.current = true;
    setMoreError(null);
    try {
      const page = await fetchPage(next);
      client.setQueryData<RecordPage<R>>(queryKey, (before) => (before?.next === next ? { rows: [...before.rows, ...page.rows], next: page.next } : before));
    } catch (error) {
      setMoreError(error);
    } finally {
      isLoading.current = false;
    }
    // The other values follow from the key.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [client, next, JSON.stringify(queryKey)]);
  return {
    rows: query.data?.rows,
    error: query.error,
    refetch: query.refetch,
    hasMore: next !== null,
    moreError,
    loadMore,
    /** For lists, which call it when their end comes into view. After a failure it waits for a retry. */
    onEnd: useCallback(() => { if (moreError === null) void loadMore(); }, [moreError, loadMore]),
  };
}
