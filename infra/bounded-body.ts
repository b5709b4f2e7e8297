/** The body of a response, bounded in size. */

export class ResponseTooLongError extends Error {}

/** Rejects with ResponseTooLongError above `bytesMax` unpacked bytes, and when the connection breaks. */
export async function boundedBody({ body }: Response, bytesMax: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    // Leaving the loop cancels the download.
    if (bytes > bytesMax) throw new ResponseTooLongError(`more than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, bytes);
}

const BEGINNING_MAX = 300;

/** The beginning of a body in one line, for messages. */
export function beginningOf(text: string): string {
  return text.slice(0, BEGINNING_MAX).replaceAll(/\s+/g, ' ').trim();
}
