// Reads JSON Schemas of tool arguments: which field to show for which schema, and which errors a value has.
// No code is generated from a schema, so the page needs no permission to evaluate code.

import { Validator } from '@cfworker/json-schema';
import { type Json, type JsonObject, isObject, plain } from '../lib/json';

export type Schema = JsonObject;

export type FieldKind =
  | { is: 'text'; long: boolean; format?: string }
  | { is: 'number'; whole: boolean }
  | { is: 'flag' }
  | { is: 'choice'; values: Json[] }
  | { is: 'object'; properties: [name: string, schema: Schema][]; required: Set<string> }
  | { is: 'list'; item: Schema }
  | { is: 'json'; why: string };

const MAX_DEPTH = 5;
/** Strings that are usually longer than one line. */
const LONG = /^(body|content|text|message|markdown|html|description|query|sql|code|script|prompt|data|thought|diff|patch)$/i;

/** Follows local references and joins `allOf`; null if that is not possible. */
export function resolve(schema: Json | undefined, root: Schema, depth = 0): Schema | null {
  if (schema === true || schema === undefined) return {};
  if (!isObject(schema) || depth > 8) return null;
  const reference = schema['$ref'];
  if (typeof reference === 'string') {
    if (!reference.startsWith('#/')) return null;
    let target: Json | undefined = root;
    for (const part of reference.slice(2).split('/')) {
      const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
      target = isObject(target) ? target[key] : undefined;
    }
    const { $ref: _, ...rest } = schema;
    const found = target === undefined ? null : resolve(target, root, depth + 1);
    return found && { ...found, ...rest };
  }
  const all = schema['allOf'];
  if (Array.isArray(all) && all.length === 1) {
    const { allOf: _, ...rest } = schema;
    const only = resolve(all[0], root, depth + 1);
    return only && { ...only, ...rest };
  }
  return schema;
}

/** The alternatives of a schema without `null`, and whether `null` was one. */
function withoutNull(schema: Schema, root: Schema): Schema | null {
  for (const word of ['anyOf', 'oneOf']) {
    const options = schema[word];
    if (!Array.isArray(options)) continue;
    const others = options.filter((option) => !(isObject(option) && option['type'] === 'null'));
    if (others.length !== 1) return null;
    const { [word]: _, ...rest } = schema;
    const only = resolve(others[0], root);
    return only && { ...only, ...rest };
  }
  return schema;
}

/** How to edit a value of this schema. What a form cannot show is edited as JSON. */
export function fieldKind(given: Json | undefined, root: Schema, name: string, depth = 0): FieldKind {
  const resolved = resolve(given, root);
  const schema = resolved && withoutNull(resolved, root);
  if (!schema) return { is: 'json', why: 'several forms are possible' };
  if (Array.isArray(schema['enum'])) return { is: 'choice', values: schema['enum'] };
  if (schema['const'] !== undefined) return { is: 'choice', values: [schema['const']] };
  if (['allOf', 'not', 'if', 'patternProperties', 'prefixItems'].some((word) => schema[word] !== undefined)) {
    return { is: 'json', why: 'the schema has conditions' };
  }
  const types = Array.isArray(schema['type']) ? schema['type'].filter((type) => type !== 'null') : [schema['type']];
  if (types.length !== 1) return { is: 'json', why: 'several types are possible' };
  switch (types[0]) {
    case 'string': {
      const format = typeof schema['format'] === 'string' ? schema['format'] : undefined;
      const limit = typeof schema['maxLength'] === 'number' ? schema['maxLength'] : Infinity;
      return { is: 'text', long: !format && limit > 200 && LONG.test(name), format };
    }
    case 'number':
      return { is: 'number', whole: false };
    case 'integer':
      return { is: 'number', whole: true };
    case 'boolean':
      return { is: 'flag' };
    case 'array':
      return depth < MAX_DEPTH && isObject(schema['items']) ? { is: 'list', item: schema['items'] } : { is: 'json', why: 'any items' };
    case 'object': {
      const properties = isObject(schema['properties']) ? Object.entries(schema['properties']) : [];
      if (properties.length === 0 || depth >= MAX_DEPTH) return { is: 'json', why: 'any properties' };
      return { is: 'object', properties: properties as [string, Schema][], required: requiredOf(schema) };
    }
    default:
      return { is: 'json', why: 'any value' };
  }
}

function requiredOf(schema: Schema): Set<string> {
  const names = schema['required'];
  return new Set(Array.isArray(names) ? names.filter((name) => typeof name === 'string') : []);
}

/** Text about a field: title, description, default, and limits. */
export function about(given: Json | undefined, root: Schema): { title?: string; text: string } {
  const schema = resolve(given, root) ?? {};
  const parts: string[] = [];
  if (typeof schema['description'] === 'string') parts.push(schema['description']);
  const limits: [string, string][] = [['minimum', 'at least'], ['maximum', 'at most'], ['minLength', 'min. length'], ['maxLength', 'max. length'], ['pattern', 'pattern']];
  const found = limits.filter(([word]) => typeof schema[word] === 'number' || typeof schema[word] === 'string');
  if (found.length > 0) parts.push(`(${found.map(([word, label]) => `${label} ${String(schema[word])}`).join(', ')})`);
  if (schema['default'] !== undefined) parts.push(`Default: ${JSON.stringify(schema['default'])}`);
  return { title: typeof schema['title'] === 'string' ? schema['title'] : undefined, text: parts.join(' ') };
}

/** A first value for a new item of a list. */
export function emptyValue(schema: Schema, root: Schema): Json {
  const kind = fieldKind(schema, root, '');
  switch (kind.is) {
    case 'text':
      return '';
    case 'number':
      return 0;
    case 'flag':
      return false;
    case 'choice':
      return kind.values[0] ?? null;
    case 'object':
      return {};
    case 'list':
      return [];
    case 'json':
      return null;
  }
}

/** The messages for a value, by JSON pointer. Empty if the schema itself cannot be read: the gateway checks again. */
export function errorsOf(schema: Schema, value: Json): Map<string, string> {
  const errors = new Map<string, string>();
  try {
    const draft = String(schema['$schema'] ?? '').includes('draft-07') ? '7' : '2020-12';
    const { valid, errors: found } = new Validator(schema, draft, false).validate(plain(value));
    if (valid) return errors;
    for (const { keyword, instanceLocation, error } of found) {
      if (['properties', 'items', '$ref', 'allOf', 'anyOf', 'additionalProperties'].includes(keyword)) continue;
      const pointer = instanceLocation.replace(/^#/, '');
      const missing = keyword === 'required' ? /required property "(.*)"/.exec(error)?.[1] : undefined;
      const at = missing === undefined ? pointer : `${pointer}/${escape(missing)}`;
      if (!errors.has(at)) errors.set(at, missing === undefined ? sentence(error) : 'A value is required.');
    }
    if (errors.size === 0 && found[0]) errors.set('', sentence(found[0].error));
  } catch {
    return new Map();
  }
  return errors;
}

export const escape = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');

const sentence = (error: string): string => error.replace(/^Instance /, 'The value ').replace(/^String /, 'The text ');
