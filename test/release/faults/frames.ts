/**
 * WebSocket frames of a server as bytes (RFC 6455), as far as a proxy needs them: splits a byte stream into frames and
 * makes text frames. A server does not mask. Does not support fragmentation and extensions, which nodes do not use for
 * JSON-RPC; fragments pass unchanged.
 */
export const TEXT = 1;

export type Frame = {
  readonly opcode: number;
  /** False for a fragment. */
  readonly whole: boolean;
  readonly payload: Buffer;
  /** The original bytes of the frame. */
  readonly raw: Buffer;
};

/** Splits a stream of bytes into frames; keeps an incomplete frame for later. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  read(chunk: Buffer): Frame[] {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: Frame[] = [];
    for (;;) {
      const frame = firstFrame(this.#rest);
      if (frame === undefined) return frames;
      frames.push(frame);
      this.#rest = this.#rest.subarray(frame.raw.length);
    }
  }
}

export function textFrame(payload: Buffer): Buffer {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = 0x80 | TEXT;
  if (length < 126) head[1] = length;
  else if (length < 65_536) {
    head[1] = 126;
    head.writeUInt16BE(length, 2);
  } else {
    head[1] = 127;
    head.writeBigUInt64BE(BigInt(length), 2);
  }
  return Buffer.concat([head, payload]);
}

function firstFrame(bytes: Buffer): Frame | undefined {
  if (bytes.length < 2) return undefined;
  const short = bytes.readUInt8(1) & 0x7f;
  const lengthBytes = short === 126 ? 2 : short === 127 ? 8 : 0;
  if (bytes.length < 2 + lengthBytes) return undefined;
  let length = short;
  if (short === 126) length = bytes.readUInt16BE(2);
  if (short === 127) length = Number(bytes.readBigUInt64BE(2));
  const start = 2 + lengthBytes;
  if (bytes.length < start + length) return undefined;
  const raw = bytes.subarray(0, start + length);
  const first = bytes.readUInt8(0);
  const payload = raw.subarray(start);
  return { opcode: first & 0x0f, whole: (first & 0x80) !== 0, payload, raw };
}
