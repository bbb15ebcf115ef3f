// Which tools have a user interface of their own (MCP Apps).

import type { Tool } from '../api/queries';

export interface UiMeta {
  resourceUri?: string;
  visibility?: string[];
  csp?: Record<string, string[] | undefined>;
}

export function uiOf(tool: Tool): UiMeta | undefined {
  const definition = tool.definition as unknown as { _meta?: { ui?: UiMeta; 'ui/resourceUri'?: string } } | undefined;
  const meta = definition?._meta;
  return meta?.ui ?? (meta?.['ui/resourceUri'] ? { resourceUri: meta['ui/resourceUri'] } : undefined);
}

/** The URI of the app of a tool, if it has one. */
export function appUri(tool: Tool): string | undefined {
  const uri = uiOf(tool)?.resourceUri;
  return uri?.startsWith('ui://') ? uri : undefined;
}
