// Tokens by server and tool: as areas, and as bars. Servers are told apart by their frames and names, not by colours.

import { type KeyboardEvent, useMemo, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import type { Schemas } from '../api/client';
import { count, plural } from '../lib/format';
import { type Box, treemap } from '../lib/treemap';

type Stats = Schemas['StatsView'];
type ToolWeight = Schemas['ToolWeightView'];
type Measure = 'full' | 'sent';

const WIDTH = 1000;
const HEIGHT = 420;
/** The line with the name of a server, if its area is large enough for one. */
const LABEL_HEIGHT = 18;
/** Areas that are smaller than this are only shown, and reached with the table below. */
const MIN_SIDE = 4;

/** Names that no server has: the gateway's own tools, and tools that only a manifest or a skill describes. */
const OWN_NAMES: Record<string, string> = { _toolbooth: 'the gateway itself', _manifest: 'manifests and skills' };
export const serverLabel = (name: string) => OWN_NAMES[name] ?? name;
/** The name without the prefix that repeats the server. */
const shortName = ({ name, server }: ToolWeight) => (name.startsWith(`${server}_`) ? name.slice(server.length + 1) : name);
const valueOf = (weight: { full: number; sent?: number | null }, measure: Measure) => (measure === 'sent' ? weight.sent ?? 0 : weight.full);

interface ServerArea {
  name: string;
  box: Box<unknown>;
  hasLabel: boolean;
  tools: Box<ToolWeight>[];
}

/** The areas of the servers, largest first, each with those of its tools. */
function areasOf(stats: Stats, measure: Measure): ServerArea[] {
  const byServer = new Map<string, ToolWeight[]>();
  for (const tool of stats.dearest) byServer.set(tool.server, [...(byServer.get(tool.server) ?? []), tool]);
  const sumOf = (tools: ToolWeight[]) => tools.reduce((sum, tool) => sum + valueOf(tool, measure), 0);
  return treemap([...byServer.entries()], ([, tools]) => sumOf(tools), WIDTH, HEIGHT).map((box) => {
    const [name, tools] = box.item;
    const hasLabel = box.height > 3 * LABEL_HEIGHT && box.width > 60;
    return { name, box, hasLabel, tools: treemap(tools, (tool) => valueOf(tool, measure), box.width, box.height - (hasLabel ? LABEL_HEIGHT : 0)) };
  });
}

const percentOf = (value: number, whole: number) => `${(value / whole) * 100}%`;

/** One tab stop; arrow keys move from tool to tool, largest first. */
export function CostMap({ stats, measure }: { stats: Stats; measure: Measure }) {
  const areas = useMemo(() => areasOf(stats, measure), [stats, measure]);
  const names = useMemo(() => areas.flatMap((area) => area.tools.filter(isReachable).map((box) => box.item.name)), [areas]);
  const [current, setCurrent] = useState<string | null>(null);
  const map = useRef<HTMLDivElement>(null);
  const stop = current !== null && names.includes(current) ? current : names[0];
  const onKeyDown = (event: KeyboardEvent) => {
    const at = names.indexOf(stop ?? '');
    const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const name = names[Math.max(0, Math.min(names.length - 1, next))];
    if (name === undefined) return;
    setCurrent(name);
    [...(map.current?.querySelectorAll<HTMLElement>('button') ?? [])].find((button) => button.dataset['tool'] === name)?.focus();
  };
  return (
    <div className="treemap" ref={map} style={{ aspectRatio: `${WIDTH} / ${HEIGHT}` }} role="group" aria-label="Tokens by server and tool. Arrow keys move between tools." onKeyDown={onKeyDown}>
      {areas.map(({ name, box, hasLabel, tools }) => (
        <div key={name} className="treemap-server" role="group" aria-label={serverLabel(name)} style={{ left: percentOf(box.x, WIDTH), top: percentOf(box.y, HEIGHT), width: percentOf(box.width, WIDTH), height: percentOf(box.height, HEIGHT) }}>
          {hasLabel && <span className="label" aria-hidden="true" title={serverLabel(name)}>{serverLabel(name)}</span>}
          {tools.map((tool) => (
            <ToolArea key={tool.item.name} tool={tool} measure={measure} top={hasLabel ? LABEL_HEIGHT : 0} inside={box} isStop={tool.item.name === stop} onFocus={() => setCurrent(tool.item.name)} />
          ))}
        </div>
      ))}
    </div>
  );
}

const isReachable = (box: Box<ToolWeight>) => box.width >= MIN_SIDE && box.height >= MIN_SIDE;

interface ToolAreaProps {
  tool: Box<ToolWeight>;
  measure: Measure;
  /** The height of the server's label. */
  top: number;
  inside: Box<unknown>;
  isStop: boolean;
  onFocus: () => void;
}

function ToolArea({ tool, measure, top, inside, isStop, onFocus }: ToolAreaProps) {
  const [, go] = useLocation();
  const { item, x, y, width, height } = tool;
  const tokens = count(valueOf(item, measure));
  const isOwn = item.server.startsWith('_');
  return (
    <button
      type="button"
      data-tool={item.name}
      tabIndex={isStop ? 0 : -1}
      aria-hidden={isReachable(tool) ? undefined : true}
      aria-label={`${item.name}: ${tokens} tokens`}
      aria-disabled={isOwn || undefined}
      title={`${item.name}: ${tokens} tokens`}
      style={{ left: percentOf(x, inside.width), top: percentOf(y + top, inside.height), width: percentOf(width, inside.width), height: percentOf(height, inside.height) }}
      onFocus={onFocus}
      onClick={() => { if (!isOwn) go(`/tools/t/${encodeURIComponent(item.name)}`); }}
    >
      {width > 60 && height > 24 && <b>{shortName(item)}</b>}
      {width > 60 && height > 44 && tokens}
    </button>
  );
}

export function ServerBars({ stats, measure }: { stats: Stats; measure: Measure }) {
  const servers = [...stats.servers].sort((left, right) => valueOf(right, measure) - valueOf(left, measure));
  const highest = Math.max(1, ...servers.map((server) => valueOf(server, measure)));
  return (
    <div className="bars">
      {servers.slice(0, 40).map((server) => [
        <span key={`${server.name} name`} className="wrap-any">{serverLabel(server.name)} <span className="muted small">{plural(server.tools, 'tool')}</span></span>,
        <span key={`${server.name} bar`} className="bar"><i style={{ width: `${(valueOf(server, measure) / highest) * 100}%` }} /></span>,
        <span key={`${server.name} value`} className="num small">{count(valueOf(server, measure))}</span>,
      ])}
    </div>
  );
}
