/**
 * What an endpoint is: its path, the schemas of its parameters and of its answer, and the function
 * from one to the other. app.ts mounts endpoints and openapi.ts describes them, from the same value,
 * so that the document cannot differ from what is served. An endpoint knows neither express nor
 * headers.
 */
import type { Request } from 'express';
import type { z } from 'zod';
import type { Call } from './analytics/query.ts';
import type { Encoded } from './encoded.ts';
import { parseParameters } from './parameters.ts';
import type { ProblemCode } from './problems.ts';

type Definition<Parameters extends z.ZodObject, Answer extends z.ZodType> = {
  /** With a colon before each path parameter: `/v1/traders/:address`. */
  readonly path: `/${string}`;
  readonly summary: string;
  /** What a client must know beyond the fields; Markdown. */
  readonly description: string;
  /** Path and query parameters. */
  readonly parameters: Parameters;
  readonly answer: Answer;
  /** Problems besides those of every endpoint. */
  readonly problems: readonly ProblemCode[];
  /** Throws Problem where there is no answer. */
  readonly run: (call: Call, given: z.output<Parameters>) => Promise<z.input<Answer> | Encoded>;
};

/** An endpoint whose types were checked against each other where it was defined. */
export type Endpoint = Omit<Definition<z.ZodObject, z.ZodType>, 'run'> & {
  /** Throws Problem 400 for bad parameters, and what `run` throws. */
  readonly respond: (call: Call, request: Pick<Request, 'query' | 'params'>) => Promise<unknown>;
};

export function endpoint<Parameters extends z.ZodObject, Answer extends z.ZodType>({
  run,
  ...described
}: Definition<Parameters, Answer>): Endpoint {
  return {
    ...described,
    respond: async (call, request) =>
      await run(call, parseParameters(described.parameters, request)),
  };
}
