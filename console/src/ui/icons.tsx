// Icons: strokes on a 16-pixel grid, in the colour of the text. Decorative unless a control names itself otherwise.

import type { ReactNode } from 'react';

const ICONS = {
  overview: <><rect x="2" y="2" width="5" height="7" rx="1" /><rect x="9" y="2" width="5" height="4" rx="1" /><rect x="2" y="11" width="5" height="3" rx="1" /><rect x="9" y="8" width="5" height="6" rx="1" /></>,
  inbox: <><path d="M2 9l2-6h8l2 6v4a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1z" /><path d="M2 9h3.5l1 2h3l1-2H14" /></>,
  chat: <path d="M2.500 3h11a.5.5 0 0 1 .5.5v7a.5.5 0 0 1-.5.5H7l-3.500 3V11h-1a.5.5 0 0 1-.5-.5v-7a.5.5 0 0 1 .5-.5z" />,
  calls: <path d="M1.5 8h3l2-5 3 10 2-5h3" />,
  tools: <path d="M9.5 3.5a3.4 3.4 0 0 1 4.4-.6L11.500 5.200l.9 1.800 1.900-.3a3.400 3.400 0 0 1-4.500 2.800L5.300 14a1.700 1.700 0 0 1-2.400-2.400l4.600-4.500a3.400 3.400 0 0 1 2-3.600z" />,
  servers: <><rect x="2" y="2.500" width="12" height="4.500" rx="1" /><rect x="2" y="9" width="12" height="4.500" rx="1" /><path d="M4.500 4.800h.01M4.500 11.300h.01" /></>,
  files: <><path d="M4 1.500h5l3.500 3.500v9a.5.5 0 0 1-.5.5H4a.5.5 0 0 1-.5-.5V2a.5.5 0 0 1 .5-.5z" /><path d="M9 1.500V5h3.500" /></>,
  activity: <><path d="M2 3h12M2 6.500h12M2 10h8M2 13.500h5" /></>,
  cost: <><path d="M2 14V9h3v5M6.500 14V5h3v9M11 14V2h3v12" /></>,
  settings: <><circle cx="8" cy="8" r="2.200" /><path d="M8 1.500v2M8 12.500v2M1.500 8h2M12.500 8h2M3.400 3.400l1.400 1.400M11.200 11.200l1.400 1.400M3.400 12.600l1.400-1.400M11.200 4.800l1.400-1.400" /></>,
  search: <><circle cx="7" cy="7" r="4.500" /><path d="M10.500 10.500L14 14" /></>,
  sun: <><circle cx="8" cy="8" r="3" /><path d="M8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1" /></>,
  moon: <path d="M13.500 9.500A6 6 0 0 1 6.500 2.500a6 6 0 1 0 7 7z" />,
  check: <path d="M3 8.500l3.500 3.500L13 4.500" />,
  cross: <path d="M4 4l8 8M12 4l-8 8" />,
  warn: <><path d="M8 2L14.500 13.500h-13z" /><path d="M8 6.500v3.500M8 11.800h.01" /></>,
  info: <><circle cx="8" cy="8" r="6" /><path d="M8 7.200v4M8 4.800h.01" /></>,
  copy: <><rect x="5.500" y="5.500" width="8" height="8.500" rx="1" /><path d="M10.500 5.500V3a1 1 0 0 0-1-1H3.500a1 1 0 0 0-1 1v6.500a1 1 0 0 0 1 1h2" /></>,
  back: <path d="M10 3L5 8l5 5" />,
  next: <path d="M6 3l5 5-5 5" />,
  down: <path d="M3.500 6L8 10.500 12.500 6" />,
  up: <path d="M3.500 10L8 5.500 12.500 10" />,
  plus: <path d="M8 3v10M3 8h10" />,
  play: <path d="M4.500 2.500l9 5.500-9 5.500z" />,
  refresh: <><path d="M13.500 8a5.500 5.500 0 1 1-1.700-4" /><path d="M13.500 1.500V5H10" /></>,
  user: <><circle cx="8" cy="5.500" r="3" /><path d="M2.500 14a5.500 5.500 0 0 1 11 0" /></>,
  more: <path d="M3 8h.01M8 8h.01M13 8h.01" />,
  download: <path d="M8 2v8.500M4.500 7L8 10.500 11.500 7M2.500 13.500h11" />,
  trash: <path d="M2.500 4h11M6 4V2.500h4V4M4 4l.7 9.500h6.600L12 4" />,
  prompt: <><path d="M3 4.500L6.500 8 3 11.500" /><path d="M8 12h5" /></>,
  clock: <><circle cx="8" cy="8" r="6" /><path d="M8 4.500V8l2.500 1.500" /></>,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof ICONS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      {ICONS[name]}
    </svg>
  );
}

/** The shape of a status, so that colour is not its only sign. */
export function Shape({ kind }: { kind: 'ok' | 'warn' | 'bad' | 'held' | 'off' }) {
  const shape = {
    ok: <circle cx="5" cy="5" r="4" />,
    warn: <path d="M5 0.800L9.500 9h-9z" />,
    bad: <rect x="1" y="1" width="8" height="8" />,
    held: <path d="M5 0.500L9.500 5 5 9.500 0.500 5z" />,
    off: <circle cx="5" cy="5" r="3.500" fill="none" stroke="currentColor" strokeWidth="1.500" />,
  }[kind];
  return <svg viewBox="0 0 10 10" fill="currentColor" aria-hidden="true">{shape}</svg>;
}
