// Steps and what they depend on: as columns of boxes with lines between them, on narrow screens as rows.

import { type ReactNode, useMemo, useSyncExternalStore } from 'react';
import type { Tone } from './basic';
import { Shape } from './icons';

export interface GraphNode {
  id: string;
  /** A second line. */
  label?: string;
  after: string[];
  tone?: Tone;
  /** The state in words. */
  state?: string;
}

const WIDTH = 190;
const HEIGHT = 52;
const GAP_X = 48;
const GAP_Y = 14;
/** More would not be readable; the list below shows all. */
const MAX_NODES = 120;

interface Place {
  node: GraphNode;
  x: number;
  y: number;
}

/** Each node is one column after the last of those that it depends on. A cycle cannot occur, but must not hang. */
export function layout(nodes: GraphNode[]): { places: Map<string, Place>; width: number; height: number } {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const columns = new Map<string, number>();
  const columnOf = (id: string, path: Set<string>): number => {
    const known = columns.get(id);
    if (known !== undefined) return known;
    if (path.has(id)) return 0;
    path.add(id);
    const before = (byId.get(id)?.after ?? []).filter((other) => byId.has(other));
    const column = before.length === 0 ? 0 : Math.max(...before.map((other) => columnOf(other, path))) + 1;
    path.delete(id);
    columns.set(id, column);
    return column;
  };
  const rows: number[] = [];
  const places = new Map<string, Place>();
  for (const node of nodes) {
    const column = columnOf(node.id, new Set());
    const row = rows[column] ?? 0;
    rows[column] = row + 1;
    places.set(node.id, { node, x: column * (WIDTH + GAP_X), y: row * (HEIGHT + GAP_Y) });
  }
  const tallest = Math.max(1, ...rows.map((row) => row ?? 0));
  return { places, width: rows.length * (WIDTH + GAP_X) - GAP_X, height: tallest * (HEIGHT + GAP_Y) - GAP_Y };
}

const DOWN_GAP_X = 14;
const DOWN_GAP_Y = 30;

/** The same order from top to bottom: columns become rows. */
export function turned({ places, width, height }: ReturnType<typeof layout>): ReturnType<typeof layout> {
  const column = (x: number) => Math.round(x / (WIDTH + GAP_X));
  const row = (y: number) => Math.round(y / (HEIGHT + GAP_Y));
  const moved = [...places].map(([id, { node, x, y }]) => [id, { node, x: row(y) * (WIDTH + DOWN_GAP_X), y: column(x) * (HEIGHT + DOWN_GAP_Y) }] as const);
  const [columns, rows] = [column(width + GAP_X), row(height + GAP_Y)];
  return { places: new Map(moved), width: rows * (WIDTH + DOWN_GAP_X) - DOWN_GAP_X, height: columns * (HEIGHT + DOWN_GAP_Y) - DOWN_GAP_Y };
}

const narrow = matchMedia('(max-width: 720px)');
const onWidth = (listener: () => void) => {
  narrow.addEventListener('change', listener);
  return () => narrow.removeEventListener('change', listener);
};

export function Graph({ nodes, label, onOpen }: { nodes: GraphNode[]; label: string; onOpen?: (id: string) => void }) {
  const shown = useMemo(() => nodes.slice(0, MAX_NODES), [nodes]);
  const isNarrow = useSyncExternalStore(onWidth, () => narrow.matches);
  const { places, width, height } = useMemo(() => (isNarrow ? turned(layout(shown)) : layout(shown)), [shown, isNarrow]);
  return (
    <figure className="graph" aria-label={label} tabIndex={0}>
      <div className="graph-space" style={{ width, height }}>
        <svg width={width} height={height} aria-hidden="true">
          {[...places.values()].flatMap(({ node, x, y }) => node.after.map((other) => {
            const from = places.get(other);
            if (!from) return null;
            if (isNarrow) {
              const [x1, y1, x2, y2] = [from.x + WIDTH / 2, from.y + HEIGHT, x + WIDTH / 2, y];
              const bend = Math.max(12, (y2 - y1) / 2);
              return <path key={`${other} ${node.id}`} d={`M ${x1} ${y1} C ${x1} ${y1 + bend}, ${x2} ${y2 - bend}, ${x2} ${y2}`} />;
            }
            const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, x, y + HEIGHT / 2];
            const bend = Math.max(16, (x2 - x1) / 2);
            return <path key={`${other} ${node.id}`} d={`M ${x1} ${y1} C ${x1 + bend} ${y1}, ${x2 - bend} ${y2}, ${x2} ${y2}`} />;
          }))}
        </svg>
        {[...places.values()].map(({ node, x, y }) => (
          <GraphBox key={node.id} node={node} style={{ left: x, top: y, width: WIDTH, height: HEIGHT }} onOpen={onOpen}>
            <span className="title clip">{node.tone && <Shape kind={node.tone} />}{node.id}</span>
            <span className="muted small clip">{[node.state, node.label].filter(Boolean).join(' · ')}</span>
          </GraphBox>
        ))}
      </div>
      {nodes.length > MAX_NODES && <figcaption className="muted small">The first {MAX_NODES} of {nodes.length}.</figcaption>}
    </figure>
  );
}

function GraphBox({ node, style, onOpen, children }: { node: GraphNode; style: object; onOpen?: (id: string) => void; children: ReactNode }) {
  const names = `graph-box ${node.tone ?? ''}`;
  const after = node.after.length > 0 ? `, after ${node.after.join(', ')}` : '';
  if (!onOpen) return <div className={names} style={style} title={node.label} role="img" aria-label={`${node.id} ${node.state ?? ''}${after}`}>{children}</div>;
  return <button type="button" className={names} style={style} title={node.label} aria-label={`${node.id} ${node.state ?? ''}${after}`} onClick={() => onOpen(node.id)}>{children}</button>;
}
