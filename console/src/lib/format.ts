// Numbers, times and sizes for people.

const numbers = new Intl.NumberFormat('en-US');
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });
const full = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' });

export const count = (value: number): string => numbers.format(value);

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A number that is known, or a lower bound of it: `200+`. */
export const countUpTo = (value: number, hasMore: boolean): string => `${count(value)}${hasMore ? '+' : ''}`;

/** The number of the rows of a list that may go on: `200+ calls`. */
export const atLeast = (value: number, hasMore: boolean, one: string, many = `${one}s`): string => (hasMore ? `${count(value)}+ ${many}` : plural(value, one, many));

/** The time of day for today, else the date. */
export function shortTime(ms: number): string {
  const date = new Date(ms);
  return date.toDateString() === new Date().toDateString() ? clock.format(date) : day.format(date);
}

export const fullTime = (ms: number): string => full.format(new Date(ms));

export function duration(ms: number): string {
  if (ms < 1) return '< 1 ms';
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return span(ms);
}

/** A long span: `4 min`, `2 h 5 min`, `3 d`. */
export function span(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return `${Math.max(0, Math.floor(ms / 1000))} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d`;
}

/** Minutes and seconds that remain: `4:10`. */
export function countdown(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  if (seconds >= 3600) return span(ms);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

export function bytes(size: number): string {
  const units = ['B', 'KB', 'MB', 'GB'];
  let value = size;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function compact(value: number): string {
  if (value < 10_000) return count(value);
  return value < 1_000_000 ? `${(value / 1000).toFixed(1)}k` : `${(value / 1_000_000).toFixed(1)}M`;
}

export const percent = (share: number): string => (share > 0 && share < 0.01 ? '< 1%' : `${Math.round(share * 100)}%`);

/**
 * The name of a tool that clients see. Records have the server's own name of a tool; the name is made from it as the gateway
 * does by default, if the gateway did not say it. Skills and the gateway's own tools have no server that people know.
 */
export function toolName(server?: string | null, tool?: string | null, exposed?: string | null): string {
  if (exposed) return exposed;
  if (!tool) return server ?? '';
  if (!server || server.startsWith('_')) return tool;
  return `${server}_${withoutServer(server, tool)}`.replace(/[^A-Za-z0-9_-]/g, '_');
}

/** The own name of a tool without the name of its server, if it begins with that. */
function withoutServer(server: string, tool: string): string {
  const alike = (text: string) => text.toLowerCase().replace(/[-./]/g, '_');
  if (!alike(tool).startsWith(`${alike(server)}_`)) return tool;
  const rest = tool.slice(server.length).replace(/^[-_./]{1,2}/, '');
  return /^[A-Za-z0-9]/.test(rest) ? rest : tool;
}

/** Shortens an id to its last characters, which differ between neighbours. */
export const shortId = (id: string): string => (id.length > 8 ? `…${id.slice(-6)}` : id);
