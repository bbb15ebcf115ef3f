// A form for the arguments of a tool, made from its JSON Schema.

import { createContext, useContext, useEffect, useId, useState } from 'react';
import { type Json, type JsonObject, isObject, parseJson, pretty, rawNumber, same } from '../lib/json';
import { Button } from '../ui/basic';
import { short } from '../ui/json';
import { type FieldKind, type Schema, about, emptyValue, escape, fieldKind } from './schema';

interface FormContext {
  root: Schema;
  /** Messages by JSON pointer. */
  errors: Map<string, string>;
  /** The value before it was edited, to mark changes. */
  original: Json | undefined;
}
const Context = createContext<FormContext>({ root: {}, errors: new Map(), original: undefined });

interface SchemaFormProps {
  schema: Schema;
  value: JsonObject;
  onChange: (value: JsonObject) => void;
  errors: Map<string, string>;
  original?: JsonObject;
  /** What to say if there is nothing to fill in. */
  empty?: string;
}

export function SchemaForm({ schema, value, onChange, errors, original, empty }: SchemaFormProps) {
  const kind = fieldKind({ type: 'object', ...schema }, schema, '');
  if (kind.is !== 'object') {
    const isEmpty = !schema['properties'] || Object.keys(schema['properties'] as object).length === 0;
    if (isEmpty && schema['additionalProperties'] !== true && Object.keys(value).length === 0) {
      return <p className="muted">{empty ?? 'This tool takes no arguments.'}</p>;
    }
    return <JsonField id="arguments" label="Arguments" value={value} onChange={(next) => isObject(next) && onChange(next)} />;
  }
  const known = new Set(kind.properties.map(([name]) => name));
  const unknown = Object.keys(value).filter((name) => !known.has(name));
  return (
    <Context.Provider value={{ root: schema, errors, original }}>
      <div className="form">
        <Properties kind={kind} value={value} onChange={onChange} pointer="" depth={0} />
        {unknown.map((name) => (
          <JsonField key={name} id={`unknown-${name}`} label={name} about="Not in the schema of this tool." value={value[name]} onChange={(next) => onChange(withMember(value, name, next))} />
        ))}
        {errors.get('') && <p className="wrong" role="alert">{errors.get('')}</p>}
      </div>
    </Context.Provider>
  );
}

function withMember(value: JsonObject, name: string, member: Json | undefined): JsonObject {
  if (member === undefined) {
    const { [name]: _, ...rest } = value;
    return rest;
  }
  return { ...value, [name]: member };
}

interface PropertiesProps {
  kind: Extract<FieldKind, { is: 'object' }>;
  value: JsonObject;
  onChange: (value: JsonObject) => void;
  pointer: string;
  depth: number;
}
function Properties({ kind, value, onChange, pointer, depth }: PropertiesProps) {
  // Required fields first; otherwise the order of the schema.
  const ordered = [...kind.properties].sort(([left], [right]) => Number(kind.required.has(right)) - Number(kind.required.has(left)));
  return ordered.map(([name, schema]) => (
    <Field
      key={name}
      name={name}
      schema={schema}
      isRequired={kind.required.has(name)}
      value={value[name]}
      onChange={(next) => onChange(withMember(value, name, next))}
      pointer={`${pointer}/${escape(name)}`}
      depth={depth + 1}
    />
  ));
}

interface FieldProps {
  name: string;
  schema: Schema;
  isRequired: boolean;
  value: Json | undefined;
  onChange: (value: Json | undefined) => void;
  pointer: string;
  depth: number;
  /** The field is an item of a list and has no label of its own. */
  bare?: boolean;
}

function at(value: Json | undefined, pointer: string): Json | undefined {
  let found = value;
  for (const part of pointer.split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    found = Array.isArray(found) ? found[Number(key)] : isObject(found) ? found[key] : undefined;
  }
  return found;
}

function Field(props: FieldProps) {
  const { name, schema, isRequired, value, onChange, pointer, depth, bare } = props;
  const { root, errors, original } = useContext(Context);
  const id = useId();
  const kind = fieldKind(schema, root, name, depth);
  const { title, text } = about(schema, root);
  const error = errors.get(pointer);
  const before = original === undefined ? undefined : at(original, pointer);
  const isChanged = original !== undefined && !same(before, value);
  const described = [text && `${id}-about`, error && `${id}-error`].filter(Boolean).join(' ') || undefined;
  const shared = { id, 'aria-invalid': error !== undefined, 'aria-describedby': described, 'aria-required': isRequired };
  const after = (
    <>
      {text && <p className="about clip3" id={`${id}-about`}>{text}</p>}
      {isChanged && kind.is !== 'object' && <p className="was">was: {short(before)}</p>}
      {error && <p className="wrong" id={`${id}-error`}>{error}</p>}
    </>
  );
  if (kind.is === 'object') {
    return (
      <fieldset className="group">
        <legend>{bare ? `${name}` : name}{isRequired && !bare && <span className="need">required</span>}</legend>
        {text && <p className="about muted small">{text}</p>}
        <Properties kind={kind} value={isObject(value) ? value : {}} onChange={(next) => onChange(!isRequired && Object.keys(next).length === 0 && !bare ? undefined : next)} pointer={pointer} depth={depth} />
        {error && <p className="wrong">{error}</p>}
      </fieldset>
    );
  }
  if (kind.is === 'list') {
    const items = Array.isArray(value) ? value : [];
    const replace = (next: Json[]) => onChange(next.length === 0 && !isRequired ? undefined : next);
    return (
      <fieldset className="group">
        <legend>{name}<span className="kind">list</span>{isRequired && <span className="need">required</span>}</legend>
        {items.map((item, index) => (
          <div key={index} className="list-item">
            <Field name={`${name} ${index + 1}`} schema={kind.item} isRequired bare value={item} onChange={(next) => replace(items.map((old, position) => (position === index ? next ?? null : old)))} pointer={`${pointer}/${index}`} depth={depth + 1} />
            <Button look="quiet" icon="trash" aria-label={`Remove ${name} ${index + 1}`} onClick={() => replace(items.filter((_, position) => position !== index))} />
          </div>
        ))}
        <div><Button small icon="plus" onClick={() => onChange([...items, emptyValue(kind.item, root)])}>Add to {name}</Button></div>
        {after}
      </fieldset>
    );
  }
  if (kind.is === 'json') {
    return <JsonField id={id} label={name} about={text} required={isRequired} value={value} onChange={onChange} error={error} was={isChanged ? short(before) : undefined} />;
  }
  const label = bare
    ? <label htmlFor={id} className="visually-hidden">{name}</label>
    : <label htmlFor={id}>{name}{title && title !== name && <span className="kind">{title}</span>}<span className="kind">{kindWord(kind)}</span>{isRequired && <span className="need">required</span>}</label>;
  return (
    <div className="field">
      {label}
      <Control kind={kind} shared={shared} value={value} isRequired={isRequired} onChange={onChange} />
      {after}
    </div>
  );
}

function kindWord(kind: FieldKind): string {
  if (kind.is === 'text') return kind.format ?? 'text';
  if (kind.is === 'number') return kind.whole ? 'whole number' : 'number';
  return kind.is === 'flag' ? 'yes or no' : '';
}

interface ControlProps {
  kind: Extract<FieldKind, { is: 'text' | 'number' | 'flag' | 'choice' }>;
  shared: { id: string };
  value: Json | undefined;
  isRequired: boolean;
  onChange: (value: Json | undefined) => void;
}
function Control({ kind, shared, value, isRequired, onChange }: ControlProps) {
  switch (kind.is) {
    case 'text': {
      const text = value === undefined || value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value);
      const change = (next: string) => onChange(next === '' && !isRequired ? undefined : next);
      if (kind.long || text.includes('\n') || text.length > 90) {
        return <textarea {...shared} className="area text" rows={Math.min(10, Math.max(2, text.split('\n').length))} value={text} onChange={(event) => change(event.target.value)} />;
      }
      return <input {...shared} className="input" value={text} spellCheck={false} autoComplete="off" onChange={(event) => change(event.target.value)} />;
    }
    case 'number':
      return <NumberControl shared={shared} value={value} onChange={onChange} />;
    case 'flag':
      return (
        <select {...shared} className="select" value={value === undefined ? '' : String(value)} onChange={(event) => onChange(event.target.value === '' ? undefined : event.target.value === 'true')}>
          <option value="">{isRequired ? 'Choose…' : 'Not set'}</option>
          <option value="true">true</option>
          <option value="false">false</option>
        </select>
      );
    case 'choice': {
      const position = kind.values.findIndex((candidate) => same(candidate, value));
      return (
        <select {...shared} className="select" value={position < 0 ? '' : String(position)} onChange={(event) => onChange(event.target.value === '' ? undefined : kind.values[Number(event.target.value)])}>
          <option value="">{isRequired ? 'Choose…' : 'Not set'}</option>
          {kind.values.map((candidate, index) => <option key={index} value={index}>{typeof candidate === 'string' ? candidate : JSON.stringify(candidate)}</option>)}
        </select>
      );
    }
  }
}

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

function NumberControl({ shared, value, onChange }: { shared: { id: string }; value: Json | undefined; onChange: (value: Json | undefined) => void }) {
  const text = value === undefined || value === null ? '' : rawNumber(value) ?? String(value);
  return (
    <input
      {...shared}
      className="input"
      inputMode="decimal"
      autoComplete="off"
      value={text}
      // Text that is not a number stays as text, and the check reports it.
      onChange={(event) => {
        const next = event.target.value.trim();
        const complete = NUMBER.test(next) && !/\.\d*0$/.test(next);
        onChange(next === '' ? undefined : complete ? parseJson(next) : next);
      }}
      onBlur={() => typeof value === 'string' && NUMBER.test(value) && onChange(parseJson(value))}
    />
  );
}

interface JsonFieldProps {
  id: string;
  label: string;
  about?: string;
  required?: boolean;
  value: Json | undefined;
  onChange: (value: Json | undefined) => void;
  error?: string;
  was?: string;
}
function JsonField({ id, label, about: text, required, value, onChange, error, was }: JsonFieldProps) {
  return (
    <div className="field">
      <label htmlFor={id}>{label}<span className="kind">JSON</span>{required && <span className="need">required</span>}</label>
      <JsonArea id={id} value={value} onChange={onChange} rows={4} />
      {text && <p className="about">{text}</p>}
      {was !== undefined && <p className="was">was: {was}</p>}
      {error && <p className="wrong">{error}</p>}
    </div>
  );
}

/** A text area for JSON. It reports only valid values, and says why a text is not valid. */
export function JsonArea({ id, value, onChange, rows = 12, onInvalid, label }: { id: string; value: Json | undefined; onChange: (value: Json | undefined) => void; rows?: number; onInvalid?: (isInvalid: boolean) => void; label?: string }) {
  const [text, setText] = useState(value === undefined ? '' : pretty(value));
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    // The value changed elsewhere, for example in the form.
    const current = text.trim() === '' ? undefined : tryParse(text);
    if (!same(current, value) && problem === null) setText(value === undefined ? '' : pretty(value));
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [value]);
  const change = (next: string) => {
    setText(next);
    try {
      const parsed = next.trim() === '' ? undefined : parseJson(next);
      setProblem(null);
      onInvalid?.(false);
      onChange(parsed);
    } catch (error) {
      setProblem(error instanceof Error ? error.message.replace(/^JSON\.parse: /, '') : 'not valid JSON');
      onInvalid?.(true);
    }
  };
  return (
    <>
      <textarea id={id} className="area" rows={rows} spellCheck={false} aria-label={label} aria-invalid={problem !== null} value={text} onChange={(event) => change(event.target.value)} />
      {problem && <p className="wrong" role="alert">Not valid JSON: {problem}</p>}
    </>
  );
}

function tryParse(text: string): Json | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}
