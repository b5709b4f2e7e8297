/**
 * The arguments of a tool. Models do not keep to a schema exactly: they send numbers as text, ids as numbers, one entry
 * where a list is expected, and null or "" for what they leave out. These are unambiguous, so they are accepted; the
 * schema that a model reads shows only the usual type. An unknown name is rejected, because ignoring a filter would
 * answer a different question.
 */
import { z } from 'zod';
import { DECIMAL, flag } from '../../api/http/parameters.ts';
import { ToolError } from './tool.ts';

/** An object of these arguments. `z.toJSONSchema` describes it as if it had no other spellings. */
export function toolInput<Shape extends z.ZodRawShape>(shape: Shape) {
  const understood = Object.entries(shape).map(([name, argument]) => [
    name,
    z.preprocess((given) => understand(given, typeOf(argument)), argument),
  ]);
  // The entries parse to what those of `shape` parse to.
  return z.strictObject(Object.fromEntries(understood)) as unknown as z.ZodObject<
    Shape,
    z.core.$strict
  >;
}

/** Throws ToolError, which says what is wrong with each argument. */
export function parseInput<Input extends z.ZodObject>(input: Input, given: Arguments = {}) {
  const parsed = input.safeParse(given);
  if (parsed.success) return parsed.data;
  throw new ToolError(parsed.error.issues.map((issue) => wrongOf(issue, input, given)).join('; '));
}

type Arguments = Readonly<Record<string, unknown>>;

function wrongOf(issue: z.core.$ZodIssue, { shape }: z.ZodObject, given: Arguments): string {
  if (issue.code === 'unrecognized_keys') {
    const known = Object.keys(shape).join(', ') || 'none';
    return `there is no argument ${issue.keys.join(', ')}; the arguments are ${known}`;
  }
  const path = issue.path.join('.');
  const [name = ''] = issue.path;
  if (issue.path.length === 1 && isOmitted(given[String(name)])) return `${path} is missing`;
  return `${path}: ${issue.message.replace(/^Invalid \w+: /, '')}`;
}

function isOmitted(given: unknown): boolean {
  return given === undefined || given === null || given === '';
}

/** A value that cannot be understood is returned unchanged, so that the schema rejects it. */
function understand(given: unknown, type: z.core.$ZodType): unknown {
  if (isOmitted(given)) return undefined;
  switch (type._zod.def.type) {
    case 'number':
      return typeof given === 'string' && DECIMAL.test(given) ? Number(given) : given;
    case 'boolean':
      return flag.safeParse(String(given)).data ?? given;
    case 'string':
    case 'enum':
      // A larger integer has lost digits, and its text would be another id.
      return typeof given === 'number' && Math.abs(given) <= Number.MAX_SAFE_INTEGER
        ? String(given)
        : given;
    case 'array': {
      const { element } = (type as z.core.$ZodArray)._zod.def;
      return (Array.isArray(given) ? given : [given]).map((one) => understand(one, element));
    }
    default:
      return given;
  }
}

/** The schema inside `optional()` and `default()`. */
function typeOf(argument: z.core.$ZodType): z.core.$ZodType {
  return argument instanceof z.ZodOptional || argument instanceof z.ZodDefault
    ? typeOf(argument._zod.def.innerType)
    : argument;
}
