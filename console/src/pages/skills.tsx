// Skills: what they are for, what they need, their steps as a graph, a form to run them, and their runs.

import { useMutation, useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link } from 'wouter';
import { fetchJson, send } from '../api/client';
import { SchemaForm } from '../form/form';
import { type Schema, errorsOf } from '../form/schema';
import { plural } from '../lib/format';
import { type JsonObject, isObject } from '../lib/json';
import { Button, Empty, Failure, Loaded, Note, Prose, Status } from '../ui/basic';
import { Graph } from '../ui/graph';
import { Markdown } from '../ui/markdown';
import { type CallOutcome, OutcomeView, outcomeOf } from './question';
import { SkillRuns } from './skill-runs';
import { type Skill, nodesOf, skillHref, stepsOf, useSkills } from './skills-data';

export function SkillList({ selected }: { selected?: string }) {
  const skills = useSkills();
  return (
    <Loaded query={skills} lines={6}>
      {({ skills: list }) => {
        if (list.length === 0) return <div className="card"><Empty title="No skills"><p>A skill is a folder with a file <code>SKILL.md</code>: instructions for a model, the tools that it needs and, if you like, steps that the gateway runs.</p></Empty></div>;
        const open = list.find((skill) => skill.name === selected);
        if (selected !== undefined && open) return <SkillDetail key={selected} skill={open} />;
        return (
          <ul className="card items">
            {list.map((skill) => (
              <li key={`${skill.persona ?? ''} ${skill.name}`}>
                <span className="lead-col"><Status tone={skill.ready ? 'ok' : 'warn'}>{skill.ready ? 'ready' : 'incomplete'}</Status></span>
                <div className="text">
                  <p><Link className="strong" href={skillHref(skill.name)}>{skill.name}</Link> {skill.persona && <span className="tag">{skill.persona}</span>} {skill.version && <span className="tag">{skill.version}</span>}</p>
                  <p className="muted small clip2">{skill.summary ?? skill.description ?? 'No description'}</p>
                  {!skill.ready && <p className="small muted">Missing: {[...skill.missing_tools, ...skill.missing_capabilities].join(', ') || 'see the skill'}</p>}
                </div>
                <span className="muted small nowrap">{skill.plan ? plural(stepsOf(skill.plan).length, 'step') : 'instructions'}</span>
              </li>
            ))}
          </ul>
        );
      }}
    </Loaded>
  );
}

function SkillDetail({ skill }: { skill: Skill }) {
  const nodes = useMemo(() => nodesOf(skill.plan), [skill.plan]);
  return (
    <div className="stack">
      <div className="row"><Link href="/jobs/skills">Skills</Link></div>
      <header className="stack tight">
        <div className="row wrap"><h2 className="wrap-any">{skill.name}</h2><Status tone={skill.ready ? 'ok' : 'warn'}>{skill.ready ? 'ready' : 'incomplete'}</Status>{skill.persona && <span className="tag">persona {skill.persona}</span>}{skill.version && <span className="tag">version {skill.version}</span>}{skill.category && <span className="tag">{skill.category}</span>}</div>
        <p>{skill.description ?? skill.summary}</p>
        {skill.source && <p className="muted small"><code className="wrap-any">{skill.source}</code></p>}
      </header>
      {!skill.ready && <Note tone="warn">You do not have everything that this skill needs: {[...skill.missing_tools, ...skill.missing_capabilities].join(', ')}.</Note>}
      {skill.safety_notes && <Note tone="warn"><Prose text={skill.safety_notes} /></Note>}
      {nodes.length > 0 && <section className="card card-body stack tight"><h3>Steps</h3><Graph nodes={nodes} label={`Steps of ${skill.name}`} /></section>}
      {nodes.length > 0 && <RunSkill skill={skill} />}
      {nodes.length > 0 && <SkillRuns skill={skill.name} />}
      <section className="card card-body stack tight"><h3>Instructions for the model</h3><Markdown text={skill.instruction_prompt} /></section>
      <section className="card card-body">
        <dl className="kv">
          <dt>Tools</dt><dd>{skill.required_tools.length > 0 ? <span className="row wrap">{skill.required_tools.map((tool) => <code key={tool} className="tag">{tool}</code>)}</span> : 'none named'}</dd>
          {skill.required_capabilities.length > 0 && <><dt>Capabilities</dt><dd>{skill.required_capabilities.join(', ')}</dd></>}
          {skill.tool && <><dt>As a tool</dt><dd><Link href={`/tools/t/${encodeURIComponent(skill.tool)}`}>{skill.tool}</Link></dd></>}
          {skill.files.length > 0 && <><dt>Files</dt><dd>{skill.files.map((file) => <p key={file}><code className="wrap-any">{file}</code></p>)}</dd></>}
        </dl>
      </section>
    </div>
  );
}

/** An argument of which the skill says nothing is entered as text. */
function textArguments(schema: Schema): Schema {
  const properties = schema['properties'];
  if (!isObject(properties as never)) return schema;
  const typed = Object.entries(properties as object).map(([name, property]) => [name, isObject(property as never) && Object.keys(property as object).length === 0 ? { type: 'string' } : property]);
  return { ...schema, properties: Object.fromEntries(typed) } as Schema;
}

/** The id of the run that a result reports. */
function runOf(outcome: CallOutcome): string | undefined {
  const report = outcome.kind === 'result' && isObject(outcome.result) ? outcome.result['structuredContent'] : null;
  const run = isObject(report as never) ? (report as JsonObject)['run'] : null;
  return typeof run === 'string' ? run : undefined;
}

function RunSkill({ skill }: { skill: Skill }) {
  const [value, setValue] = useState<JsonObject>({});
  const [outcome, setOutcome] = useState<CallOutcome | null>(null);
  const [isChecked, setChecked] = useState(false);
  // The tool of the skill has the schema of its arguments.
  const tool = useQuery({ queryKey: ['tools', 'one', skill.tool ?? ''], queryFn: ({ signal }) => fetchJson<{ parameters?: unknown }>('GET', '/tools/{name}', { params: { name: skill.tool ?? '' }, signal }), enabled: skill.tool !== undefined });
  const schema = useMemo(() => textArguments((tool.data?.parameters ?? { type: 'object', additionalProperties: true }) as Schema), [tool.data]);
  const errors = useMemo(() => errorsOf(schema, value), [schema, value]);
  const run = useMutation({
    mutationFn: async () => outcomeOf(await send('POST', '/skills/{name}/run', { params: { name: skill.name }, body: { arguments: value, wait: 0 } })),
    onMutate: () => setOutcome(null),
    onSuccess: setOutcome,
  });
  return (
    <section className="card card-body stack tight" aria-label="Run">
      <h3>Run it</h3>
      <p className="muted small">Each step is an ordinary call with your rights. A step that needs approval waits in the inbox.</p>
      <SchemaForm schema={schema} value={value} onChange={setValue} errors={isChecked ? errors : new Map()} empty="This skill takes no arguments." />
      <div><Button look="primary" icon="play" busy={run.isPending} onClick={() => { setChecked(true); if (errors.size === 0) run.mutate(); }}>{run.isPending ? 'Running…' : 'Run'}</Button></div>
      {run.error && <Failure error={run.error} />}
      {outcome && <OutcomeView outcome={outcome} onOutcome={setOutcome} />}
      {outcome && runOf(outcome) && <div><Link className="button" href={skillHref(skill.name, runOf(outcome))}>Open the run</Link></div>}
    </section>
  );
}
