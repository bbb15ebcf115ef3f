// The data of skills, as the gateway's REST API shows it, and the steps of plans.

import { useQuery } from '@tanstack/react-query';
import { fetchJson } from '../api/client';
import { isObject } from '../lib/json';
import type { GraphNode } from '../ui/graph';

export interface Skill {
  name: string;
  persona: string | null;
  version: string | null;
  summary: string | null;
  description: string | null;
  instruction_prompt: string;
  required_tools: string[];
  required_capabilities: string[];
  safety_notes: string | null;
  category: string | null;
  capability_tags: string[];
  plan: unknown;
  tool?: string;
  timeout?: number;
  files: string[];
  ready: boolean;
  missing_tools: string[];
  missing_capabilities: string[];
  source?: string;
}

interface Step {
  id?: string;
  tool?: string;
  after?: string[] | string;
  arguments?: unknown;
  when?: unknown;
}

/** The steps of a plan, which is a list or an object with `steps`. */
export function stepsOf(plan: unknown): Step[] {
  const list = Array.isArray(plan) ? plan : isObject(plan as never) ? (plan as { steps?: unknown }).steps : [];
  return Array.isArray(list) ? (list as Step[]) : [];
}

/** A step also comes after the steps whose results it uses. */
export function nodesOf(plan: unknown): GraphNode[] {
  const steps = stepsOf(plan);
  return steps.map((step, index) => {
    const id = step.id ?? `step${index + 1}`;
    const written = Array.isArray(step.after) ? step.after : step.after ? [step.after] : [];
    const used = [...JSON.stringify([step.arguments ?? null, step.when ?? null]).matchAll(/\$\{steps\.([\w-]+)/g)].map((match) => match[1] ?? '');
    return { id, label: step.tool, after: [...new Set([...written, ...used])].filter((other) => other && other !== id) };
  });
}

export const useSkills = () => useQuery({ queryKey: ['skills'], queryFn: ({ signal }) => fetchJson<{ skills: Skill[] }>('GET', '/skills', { signal }) });

/** The name of the skill that a search hit is, from the URI of its instructions: `skill://NAME/SKILL.md`. */
export function skillOf(hit: { kind?: string; uri?: string | null }): string | null {
  return (hit.kind === 'skill' && /^skill:\/\/([^/]+)\//.exec(hit.uri ?? '')?.[1]) || null;
}

export const skillHref = (skill: string, run?: string) => `/jobs/skills/${encodeURIComponent(skill)}${run ? `/${run}` : ''}`;
