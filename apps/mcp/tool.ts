/** The definition of a tool. */
import type { z } from 'zod';
import type { Described } from '../../api/http/endpoint.ts';

type Given = Readonly<Record<string, unknown>>;

/** What a tool can call. */
export type Api = {
  /** The response of an endpoint in whole units. Rejects with FillstreamError. */
  readonly call: (endpoint: Described, given?: Given) => Promise<Given>;
  /** The address of a trader by address, name or account. Rejects with FillstreamError. */
  readonly addressOf: (trader: string) => Promise<string>;
  /** Aborted when the caller has disconnected. */
  readonly signal: AbortSignal;
};

export type Tool = {
  readonly name: string;
  readonly title: string;
  /** What it is for, in a sentence or two. */
  readonly description: string;
  readonly input: z.ZodObject;
  /** Gets what `input` returns. */
  readonly run: (input: never, api: Api) => Promise<Given>;
};

/** Checks the type of a tool's input against its function. */
export function tool<Input extends z.ZodObject>(
  one: Omit<Tool, 'input' | 'run'> & {
    readonly input: Input;
    readonly run: (input: z.output<Input>, api: Api) => Promise<Given>;
  },
): Tool {
  return one;
}

/** A failure of a tool, in words for the model. */
export class ToolError extends Error {}
