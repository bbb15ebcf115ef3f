// JSON without loss: numbers that a JavaScript number cannot hold keep their text.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

interface JsonWithSource {
  parse(text: string, reviver: (key: string, value: unknown, context?: { source?: string }) => unknown): unknown;
  rawJSON?(text: string): unknown;
  isRawJSON?(value: unknown): boolean;
}
const lossless = JSON as unknown as JsonWithSource;

/** Parses JSON. A number such as 12345678901234567890 becomes a raw value that `JSON.stringify` writes unchanged. */
export function parseJson(text: string): Json {
  if (!lossless.rawJSON) return JSON.parse(text) as Json;
  return lossless.parse(text, (_key, value, context) => {
    const source = context?.source;
    if (typeof value !== 'number' || source === undefined || JSON.stringify(value) === source) return value;
    // 1.0 and 1e3 are the same number in JavaScript; only a loss of digits matters.
    return Number.isFinite(value) && !losesDigits(source, value) ? value : lossless.rawJSON?.(source);
  }) as Json;
}

function losesDigits(source: string, value: number): boolean {
  if (Number.isInteger(value) && /^-?\d+$/.test(source)) return BigInt(source) !== BigInt(value);
  const digits = source.replace(/e.*$/i, '').replace(/\D/g, '').replace(/^0+/, '').replace(/0+$/, '');
  return digits.length > 15;
}

/** The text of a raw number, if the value is one. */
export function rawNumber(value: unknown): string | undefined {
  return lossless.isRawJSON?.(value) ? (value as { rawJSON: string }).rawJSON : undefined;
}

/** The value with raw numbers as ordinary numbers, for checks. */
export function plain(value: Json): Json {
  const raw = rawNumber(value);
  if (raw !== undefined) return Number(raw);
  if (Array.isArray(value)) return value.map(plain);
  if (isObject(value)) return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
  return value;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && rawNumber(value) === undefined;
}

export function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? '';
}

export function same(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
