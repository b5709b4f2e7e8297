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

  /** `blocks` must not be empty: an empty chunk ends the body. */
  constructor(blocks: string) {
    const length = Buffer.byteLength(blocks);
    if (length === 0) throw new RangeError('an empty frame would end the stream');
    this.chunk = Buffer.from(`${length.toString(16)}\r\n${blocks}\r\n`);
  }

  /** The blocks alone, for clients that know no chunks. */
  get blocks(): Buffer {
    const from = this.chunk.indexOf('\n') + 1;
    return this.chunk.subarray(from, this.chunk.length - LINE_END_BYTES);
  }
}
