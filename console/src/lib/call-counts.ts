// How many calls a list has. The numbers of the overview come from the gateway, which counts in the same way.

import { count, plural } from './format';

/** A request that was held is not a call yet: the approved call has a row of its own. */
export function countedCalls(rows: { outcome: string }[], hasMore: boolean): string {
  const held = rows.filter((row) => row.outcome === 'held').length;
  const ended = rows.length - held;
  const more = hasMore ? '+' : '';
  const parts = [
    ...(ended > 0 || held === 0 ? [more ? `${count(ended)}+ calls` : plural(ended, 'call')] : []),
    ...(held > 0 ? [`${count(held)}${more} held`] : []),
  ];
  return parts.join(', ');
}
