// JSON and differences as text nodes. Nothing from a server is ever interpreted as HTML.

import { type ReactNode, useMemo } from 'react';
import { type Json, isObject, pretty, rawNumber } from '../lib/json';

/** Beyond this many characters JSON is shown without colours. */
const MAX_COLOURED = 60_000;
/** Beyond this many characters only the beginning is shown. */
const MAX_SHOWN = 400_000;

export function JsonView({ value }: { value: unknown }) {
  const text = useMemo(() => pretty(value), [value]);
  const shown = useMemo(() => (text.length > MAX_COLOURED ? text.slice(0, MAX_SHOWN) : coloured(text)), [text]);
  return (
    <pre className="code json" tabIndex={0}>
      {shown}
      {text.length > MAX_SHOWN && `\n… ${text.length - MAX_SHOWN} more characters`}
    </pre>
  );
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

function coloured(text: string): ReactNode[] {
  const parts: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > end) parts.push(text.slice(end, match.index));
    const [whole, string, colon] = match;
    const kind = string === undefined ? 'lit' : colon === undefined ? 'str' : 'key';
    parts.push(<span key={match.index} className={kind}>{string ?? whole}</span>);
    if (colon) parts.push(colon);
    end = match.index + whole.length;
  }
  parts.push(text.slice(end));
  return parts;
}

export interface Change {
  path: string;
  before: Json | undefined;
  after: Json | undefined;
}

/** The places where two values differ. */
export function changesBetween(before: Json | undefined, after: Json | undefined, path = ''): Change[] {
  if (isObject(before) && isObject(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => changesBetween(before[key], after[key], path ? `${path}.${key}` : key));
  }
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path, before, after }];
}

export function short(value: Json | undefined, limit = 120): string {
  if (value === undefined) return '(not set)';
  const text = typeof value === 'string' ? value : rawNumber(value) ?? JSON.stringify(value);
  return text.length > limit ? `${text.slice(0, limit)}…` : text;
}

/** Beyond this many lines two texts are not compared line by line. */
const MAX_LINES = 2000;

export function LineDiff({ before, after }: { before: string; after: string }) {
  const lines = useMemo(() => diffLines(before.split('\n'), after.split('\n')), [before, after]);
  return (
    <div className="diff" tabIndex={0}>
      {lines.map(([kind, line], index) => <div key={index} className={kind}>{line || ' '}</div>)}
    </div>
  );
}

type DiffLine = ['' | 'add' | 'del', string];

function diffLines(before: string[], after: string[]): DiffLine[] {
  if (before.length > MAX_LINES || after.length > MAX_LINES) {
    return [...before.map((line): DiffLine => ['del', line]), ...after.map((line): DiffLine => ['add', line])];
  }
  // Lengths of longest common subsequences of the remaining lines.
  const width = after.length + 1;
  const length = new Uint16Array((before.length + 1) * width);
  const at = (row: number, column: number) => length[row * width + column] ?? 0;
  for (let row = before.length - 1; row >= 0; row--) {
    for (let column = after.length - 1; column >= 0; column--) {
      length[row * width + column] =
        before[row] === after[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const lines: DiffLine[] = [];
  let [row, column] = [0, 0];
  while (row < before.length || column < after.length) {
    if (row < before.length && column < after.length && before[row] === after[column]) {
      lines.push(['', before[row] ?? '']);
      row += 1;
      column += 1;
    } else if (column >= after.length || (row < before.length && at(row + 1, column) >= at(row, column + 1))) {
      lines.push(['del', before[row] ?? '']);
      row += 1;
    } else {
      lines.push(['add', after[column] ?? '']);
      column += 1;
    }
  }
  return lines;
}

/** A unified diff that the gateway wrote. */
export function UnifiedDiff({ text }: { text: string }) {
  const kind = (line: string) => {
    if (/^(---|\+\+\+|@@)/.test(line)) return 'head';
    return line.startsWith('+') ? 'add' : line.startsWith('-') ? 'del' : '';
  };
  return (
    <div className="diff" tabIndex={0}>
      {text.split('\n').map((line, index) => <div key={index} className={kind(line)}>{kind(line) === 'head' ? line : line.slice(1) || ' '}</div>)}
    </div>
  );
}
