/**
 * The operator's arguments for one configured policy: JSON, read into the policy's own type by a schema. A schema checks
 * everything and reports all mistakes together, each with its path.
 *
 * ```ts
 * const schema = args.object({ zone: args.string(), most: args.integer({ min: 1, max: 1000 }).default(3) });
 * type Zones = args.Infer<typeof schema>;
 * const backend = Backend.configured(schema, (zones) => new Closed(zones));
 * ```
 */

import { ArgsError } from './errors.js';
import { quoted } from './text.js';

/** What a value is read into, and the mistakes that are found meanwhile. */
class Reading {
  readonly mistakes: string[] = [];

  wrong(path: string, sentence: string): void {
    this.mistakes.push(`${path}: ${sentence}`);
  }
}

/** The value of a field that has a mistake; it never reaches the policy. */
const MISTAKEN = undefined as never;

/** Reads a value that is given. */
type Read<T> = (value: unknown, path: string, reading: Reading) => T;

/** The value of a field that is not given. */
type Absent<T> = (field: string, path: string, reading: Reading) => T;

function missing(field: string, path: string, reading: Reading): never {
  reading.wrong(path, `missing field \`${field}\``);
  return MISTAKEN;
}

/** Reads a value of JSON into a `T`. */
export class Schema<T> {
  /** @internal */
  constructor(
    readonly read: Read<T>,
    readonly absent: Absent<T> = missing,
  ) {}

  /** The same, and this value if the field is not there. */
  default(value: T): Schema<T> {
    return new Schema(this.read, () => value);
  }

  /** The same, and undefined if the field is not there. */
  optional(): Schema<T | undefined> {
    return new Schema<T | undefined>(this.read, () => undefined);
  }

  /**
   * What the function makes of the value. It may throw an error with a sentence that says what is expected, which is
   * reported with the path.
   */
  map<U>(convert: (value: T) => U): Schema<U> {
    const converted =
      <A>(read: (given: A, path: string, reading: Reading) => T) =>
      (given: A, path: string, reading: Reading): U => {
        const before = reading.mistakes.length;
        const value = read(given, path, reading);
        if (reading.mistakes.length > before) {
          return MISTAKEN;
        }
        try {
          return convert(value);
        } catch (error) {
          reading.wrong(path, error instanceof Error ? error.message : String(error));
          return MISTAKEN;
        }
      };
    return new Schema(converted(this.read), converted(this.absent));
  }
}

/** The type that a schema reads. */
export type Infer<S> = S extends Schema<infer T> ? T : never;

/** Any schema that implements Standard Schema, such as those of zod, valibot and arktype. It must not be asynchronous. */
export interface StandardSchema<T> {
  readonly '~standard': {
    readonly validate: (value: unknown) => StandardResult<T> | Promise<StandardResult<T>>;
    readonly types?: { readonly output: T } | undefined;
  };
}

/** A result of {@link StandardSchema}. */
export type StandardResult<T> =
  { readonly value: T; readonly issues?: undefined } | { readonly issues: readonly StandardIssue[] };

/** A mistake that a {@link StandardSchema} found. */
export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

function primitive<T>(
  expected: string,
  accepts: (value: unknown) => value is T,
  problem: (value: T) => string | undefined = () => undefined,
): Schema<T> {
  return new Schema((value, path, reading) => {
    if (!accepts(value)) {
      reading.wrong(path, `invalid type: ${described(value)}, expected ${expected}`);
      return MISTAKEN;
    }
    const found = problem(value);
    if (found !== undefined) {
      reading.wrong(path, `invalid value: ${described(value)}, expected ${found}`);
    }
    return value;
  });
}

/** Bounds of a number or of a length, both included. */
export interface Bounds {
  readonly min?: number;
  readonly max?: number;
}

function outside(value: number, { min = -Infinity, max = Infinity }: Bounds): boolean {
  return value < min || value > max;
}

function range({ min, max }: Bounds): string {
  if (min !== undefined && max !== undefined) {
    return `${String(min)} to ${String(max)}`;
  }
  return min === undefined ? `at most ${String(max)}` : `at least ${String(min)}`;
}

/** A text; `min` and `max` are of its length. */
export function string(bounds: Bounds = {}): Schema<string> {
  return primitive(
    'a string',
    (value) => typeof value === 'string',
    (value) => (outside(value.length, bounds) ? `a string of ${range(bounds)} characters` : undefined),
  );
}

/** A whole number that JavaScript represents exactly. */
export function integer(bounds: Bounds = {}): Schema<number> {
  return primitive(
    bounds.min === undefined && bounds.max === undefined ? 'an integer' : `an integer, ${range(bounds)}`,
    (value): value is number => Number.isSafeInteger(value),
    (value) => (outside(value, bounds) ? `an integer, ${range(bounds)}` : undefined),
  );
}

/** A number. */
export function number(bounds: Bounds = {}): Schema<number> {
  return primitive(
    'a number',
    (value): value is number => typeof value === 'number' && Number.isFinite(value),
    (value) => (outside(value, bounds) ? `a number, ${range(bounds)}` : undefined),
  );
}

/** True or false. */
export function boolean(): Schema<boolean> {
  return primitive('a boolean', (value) => typeof value === 'boolean');
}

/** One of these texts. */
export function oneOf<const T extends readonly string[]>(...values: T): Schema<T[number]> {
  const isOne = (value: string): value is T[number] => values.includes(value);
  return string().map((value) => {
    if (!isOne(value)) {
      throw new ArgsError(`unknown value ${quoted(value)}, expected ${alternatives(values)}`);
    }
    return value;
  });
}

/** A list; `min` and `max` are of its length. */
export function list<T>(item: Schema<T>, bounds: Bounds = {}): Schema<readonly T[]> {
  return new Schema((value, path, reading) => {
    if (!Array.isArray(value)) {
      reading.wrong(path, `invalid type: ${described(value)}, expected a list`);
      return MISTAKEN;
    }
    if (outside(value.length, bounds)) {
      reading.wrong(path, `invalid length ${String(value.length)}, expected ${range(bounds)} entries`);
      return MISTAKEN;
    }
    return value.map((entry: unknown, at) => item.read(entry, `${path}[${String(at)}]`, reading));
  });
}

/** Reads an object. */
function objectSchema<T>(read: (value: JsonObject, path: string, reading: Reading) => T): Schema<T> {
  return new Schema((value, path, reading) => {
    if (!isObject(value)) {
      reading.wrong(path, `invalid type: ${described(value)}, expected an object`);
      return MISTAKEN;
    }
    return read(value, path, reading);
  });
}

/** An object with any keys. */
export function dictionary<T>(value: Schema<T>): Schema<ReadonlyMap<string, T>> {
  return objectSchema(
    (given, path, reading) =>
      new Map(
        Object.entries(given).map(([key, entry]) => [key, value.read(entry, `${path}.${key}`, reading)]),
      ),
  );
}

type Shape = Readonly<Record<string, Schema<unknown>>>;

/** The type of an object with these fields. */
export type InferShape<F extends Shape> = { readonly [K in keyof F]: Infer<F[K]> };

/** An object with these fields and no others. */
export function object<const F extends Shape>(fields: F): Schema<InferShape<F>> {
  return objectSchema((value, path, reading) => {
    const names = Object.keys(fields);
    for (const name of Object.keys(value).filter((key) => !Object.hasOwn(fields, key))) {
      const expected = names.length === 0 ? 'there are no fields' : `expected ${alternatives(names)}`;
      reading.wrong(`${path}.${name}`, `unknown field \`${name}\`, ${expected}`);
    }
    const read = Object.entries(fields).map(([name, schema]) => [
      name,
      Object.hasOwn(value, name)
        ? schema.read(value[name], `${path}.${name}`, reading)
        : schema.absent(name, path, reading),
    ]);
    return Object.fromEntries(read) as InferShape<F>;
  });
}

/** The JSON of args: one object. @throws {ArgsError} */
export function parseJson(bytes: Uint8Array): JsonObject {
  const text = utf8(bytes).trim();
  let json: unknown;
  try {
    json = text === '' ? {} : JSON.parse(text);
  } catch (error) {
    throw new ArgsError(`args: ${error instanceof Error ? error.message : 'no JSON'}`);
  }
  if (!isObject(json)) {
    throw new ArgsError('args is not a JSON object; write `args: {name: value}`');
  }
  return json;
}

function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new ArgsError('args is not UTF-8; it is one JSON object in UTF-8');
  }
}

/** For policies that take no arguments. @throws {ArgsError} */
export function refuseAny(bytes: Uint8Array): void {
  if (bytes.length > 0 && Object.keys(parseJson(bytes)).length > 0) {
    throw new ArgsError('this policy takes no args; remove `args` from its entry in the configuration');
  }
}

/** Reads args with a schema. @throws {ArgsError} with all mistakes */
export function readArgs<T>(schema: Schema<T> | StandardSchema<T>, bytes: Uint8Array): T {
  const json = parseJson(bytes);
  if ('~standard' in schema) {
    return validated(schema, json);
  }
  const reading = new Reading();
  const value = schema.read(json, 'args', reading);
  if (reading.mistakes.length > 0) {
    throw new ArgsError(reading.mistakes.join('; '));
  }
  return value;
}

function validated<T>(schema: StandardSchema<T>, json: unknown): T {
  const result = schema['~standard'].validate(json);
  if (result instanceof Promise) {
    throw new TypeError('the schema of the args is asynchronous; use one that is not');
  }
  if (result.issues === undefined) {
    return result.value;
  }
  throw new ArgsError(result.issues.map(issue).join('; '));
}

function issue({ message, path = [] }: StandardIssue): string {
  const keys = path.map((part) => (typeof part === 'object' ? part.key : part));
  const where = keys.map((key) => (typeof key === 'number' ? `[${String(key)}]` : `.${String(key)}`));
  return `args${where.join('')}: ${message}`;
}

type JsonObject = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function alternatives(names: readonly string[]): string {
  const listed = names.map((name) => `\`${name}\``);
  return listed.length > 2 ? `one of ${listed.join(', ')}` : listed.join(' or ');
}

function described(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return `string ${quoted(value)}`;
    case 'number':
      return `${Number.isInteger(value) ? 'integer' : 'number'} \`${String(value)}\``;
    case 'boolean':
      return `boolean \`${String(value)}\``;
    default:
      return value === null ? 'null' : Array.isArray(value) ? 'a list' : 'an object';
  }
}
