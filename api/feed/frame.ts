/**
 * Bytes of the event stream that are made once and written to many sockets: complete blocks, in the
 * chunk that HTTP/1.1 puts around a piece of a body whose length is not known (RFC 9112, 7.1). The
 * bytes with the chunk go to the socket as they are: node:http would write the length, the block and
 * the line ends as pieces of their own, for each listener again.
 */

const LINE_END_BYTES = 2;

export class Frame {
  /** The blocks in their chunk. */
  readonly chunk: Buffer;

  /** `chunk` is one that `of` made. */
  constructor(chunk: Buffer) {
    this.chunk = chunk;
  }

  /** `blocks` must not be empty: an empty chunk ends the body. */
  static of(blocks: string): Frame {
    const length = Buffer.byteLength(blocks);
    if (length === 0) throw new RangeError('an empty frame would end the stream');
    return new Frame(Buffer.from(`${length.toString(16)}\r\n${blocks}\r\n`));
  }

  /** The blocks alone, for clients that know no chunks. */
  get blocks(): Buffer {
    const from = this.chunk.indexOf('\n') + 1;
    return this.chunk.subarray(from, this.chunk.length - LINE_END_BYTES);
  }
}

/** The pieces as one; a view where they lie behind each other in memory, else a copy. */
export function joined(pieces: readonly Buffer[]): Buffer {
  const [first] = pieces;
  const last = pieces.at(-1);
  if (first === undefined || last === undefined) return Buffer.alloc(0);
  let end = first.byteOffset;
  for (const piece of pieces) {
    if (piece.buffer !== first.buffer || piece.byteOffset !== end) return Buffer.concat(pieces);
    end += piece.length;
  }
  return Buffer.from(first.buffer, first.byteOffset, end - first.byteOffset);
}
