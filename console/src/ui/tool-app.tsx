// The app of a tool (MCP Apps) with the arguments and the result of one call, wherever a result is shown.

import { Suspense, lazy } from 'react';
import { useTool } from '../api/queries';
import type { Json, JsonObject } from '../lib/json';
import { appUri } from './app-uri';
import { Skeleton } from './basic';
import { ResultView } from './result';

const AppHost = lazy(() => import('./app-host'));

interface ToolAppProps {
  /** The name of the tool. */
  tool: string;
  given: JsonObject;
  result: Json;
}

/** The app, or nothing if the tool has none. */
export function ToolApp({ tool: name, given, result }: ToolAppProps) {
  const tool = useTool(name);
  const uri = tool.data && appUri(tool.data);
  if (!tool.data || !uri) return null;
  return <Suspense fallback={<Skeleton lines={4} />}><AppHost tool={tool.data} uri={uri} given={given} result={result} /></Suspense>;
}

/** The app of the tool, if it has one, and the result. */
export function AppAndResult(props: ToolAppProps) {
  return (
    <>
      <ToolApp {...props} />
      <ResultView result={props.result} />
    </>
  );
}
