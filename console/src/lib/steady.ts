// Keeps a list still while a person reads it: new rows wait until they are asked for.

import { useCallback, useMemo, useState } from 'react';

interface Steady<T> {
  rows: T[];
  /** The number of new rows that wait; a text, because it may be at least a number. */
  waiting: string | null;
  /** Shows all rows again. */
  release: () => void;
}

/**
 * The rows to show. While `isReading`, rows that came after the one at the top are left out and counted. Rows are sorted
 * newest first.
 */
export function useSteadyRows<T>(rows: T[], keyOf: (row: T) => string, isReading: boolean): Steady<T> {
  const [kept, setKept] = useState<T[] | null>(null);
  const top = kept?.[0];
  // Set while rendering, so that no frame shows rows that have moved.
  if (isReading && kept === null && rows.length > 0) setKept(rows);
  if (!isReading && kept !== null) setKept(null);
  const release = useCallback(() => setKept(null), []);
  return useMemo(() => {
    if (kept === null || top === undefined) return { rows, waiting: null, release };
    const topKey = keyOf(top);
    const at = rows.findIndex((row) => keyOf(row) === topKey);
    if (at === 0) return { rows, waiting: null, release };
    // So many are new that the row at the top is not among the loaded ones any more.
    if (at < 0) return { rows: kept, waiting: rows.length > 0 ? `${rows.length}+` : null, release };
    return { rows: rows.slice(at), waiting: String(at), release };
    // `keyOf` is a function of the row alone.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [rows, kept, top, release]);
}
